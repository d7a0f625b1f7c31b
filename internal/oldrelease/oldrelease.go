// Package oldrelease gives tests the program of the release before this one, so that both can work
// on one table or one directory, as they do while a new version takes the place of the old.
//
// A test asks for Run, which builds the program on first use:
//
//	out, status := oldrelease.Run(t, "deduct", "ann", "30", "--operation", "a", "--store", "embedded:"+dir)
//
// A DynamoDB store on an engine of package enginetest is named in the same way, for instance
// "dynamodb:NAME?region=eu-west-1&endpoint=URL&ledger=NAME"; AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY need to be set to anything (testing.T.Setenv).
package oldrelease

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Commit is the release before this one. Whoever releases moves it on.
const Commit = "e165e4ee94e5934c9f9b6af5e137377f0a6d6763"

// Run runs the old program and returns what it wrote to both outputs, and its exit status:
// 0 if it allowed or did what it was asked, 1 if it refused, 2 for an error.
func Run(tb testing.TB, args ...string) (output string, status int) {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), Program(tb), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	if exit != nil {
		status = exit.ExitCode()
	}
	return string(out), status
}

var program = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".tools", "release-"+Commit[:12])
	path := filepath.Join(dir, "headroom")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, build(root, path)
})

// Program returns the path of the old release's `headroom`. It is built once, into .tools/, from
// the history of the repository.
func Program(tb testing.TB) string {
	tb.Helper()
	path, err := program()
	if err != nil {
		tb.Fatalf("building the release before: %v", err)
	}
	return path
}

// build puts the old program at path, whole or not at all: other test binaries may build it too.
func build(root, path string) error {
	work, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source := filepath.Join(work, "source")
	if err := extract(root, source); err != nil {
		return err
	}
	// With the flags of everybody else, so that what it depends on comes from the cache of Go.
	build := exec.Command("go", "build", "-o", filepath.Join(work, "headroom"), "./cmd/headroom")
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return os.Rename(filepath.Join(work, "headroom"), path)
}

// extract writes the files of the old release into dir.
func extract(root, dir string) error {
	have := exec.Command("git", "cat-file", "-e", Commit)
	have.Dir = root
	if have.Run() != nil {
		// This clone may not have the whole history, so fetch the rest. If that fails, git archive says
		// what is missing.
		fetch := exec.Command("git", "fetch", "--quiet", "--unshallow")
		fetch.Dir = root
		_ = fetch.Run()
	}
	archive := exec.Command("git", "archive", Commit)
	var said strings.Builder
	archive.Dir, archive.Stderr = root, &said
	out, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	if err := archive.Start(); err != nil {
		return err
	}
	err = unpack(out, dir)
	_, _ = io.Copy(io.Discard, out)
	if failed := archive.Wait(); failed != nil {
		return fmt.Errorf(
			"git archive: %w: %s (a clone needs its whole history: git fetch --unshallow)", failed,
			said.String())
	}
	return err
}

func unpack(from io.Reader, dir string) error {
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeReg:
			err = write(path, in)
		}
		if err != nil {
			return err
		}
	}
}

func write(path string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// moduleRoot is the folder above the working directory that has go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
	return "", err
}
