package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/term"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/dynamostore"
	"github.com/lumcast/headroom/embedded"
	"github.com/lumcast/headroom/memstore"
)

// storeName is the value of --store, taken apart.
type storeName struct {
	kind string // embedded, memory or dynamodb
	dir  string // for embedded

	table, ledger, region, endpoint string // for dynamodb
}

// storeName reads --store, or else HEADROOM_STORE, or else the default.
func (a *app) storeName() (storeName, error) {
	text := cmp.Or(a.store, a.env("HEADROOM_STORE"), "embedded:")
	kind, rest, found := strings.Cut(text, ":")
	n := storeName{kind: kind}
	switch {
	case !found:
	case kind == "embedded":
		n.dir = rest
		if n.dir == "" {
			dir, err := dataDir(runtime.GOOS, a.env)
			if err != nil {
				return n, err
			}
			n.dir = dir
		}
		return n, nil
	case kind == "memory" && rest == "":
		return n, nil
	case kind == "dynamodb":
		return n, n.dynamodb(rest)
	}
	// The message shows only the kind, since an address with a password may follow it.
	return n, usageError("store %q is not known: want embedded:DIR, memory: or dynamodb:TABLE?region=R&endpoint=URL&ledger=TABLE", kind+":...")
}

// dynamodb reads the part after "dynamodb:".
func (n *storeName) dynamodb(rest string) error {
	table, query, _ := strings.Cut(rest, "?")
	if n.table = table; table == "" {
		return usageError("store dynamodb: has no table: want dynamodb:TABLE")
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return usageError("store dynamodb:%s: what follows the ? does not have the form name=value&name=value", table)
	}
	for key, values := range options {
		switch key {
		case "ledger":
			n.ledger = values[0]
		case "region":
			n.region = values[0]
		case "endpoint":
			n.endpoint = values[0]
		default:
			return usageError("store dynamodb:%s: unknown option %q: want region, endpoint or ledger", table, key)
		}
		if len(values) > 1 {
			return usageError("store dynamodb:%s: %s is given twice", table, key)
		}
	}
	if n.endpoint == "" {
		return nil
	}
	at, err := url.Parse(n.endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return usageError("store dynamodb:%s: the endpoint is not an address like http://127.0.0.1:8000", table)
	}
	if at.User != nil {
		return usageError("store dynamodb:%s: the endpoint contains a password; credentials come from the environment or the AWS profile", table)
	}
	return nil
}

// openStore opens the store that the flags or the environment name.
func (a *app) openStore(ctx context.Context, cfg *config.Config) (headroom.Store, error) {
	n, err := a.storeName()
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case "embedded":
		return embedded.Open(n.dir, embedded.Options{Clock: a.now, Format: cfg.Embedded.Format, Logger: a.logger()})
	case "dynamodb":
		return dynamostore.Open(ctx, n.options(cfg, a.logger()))
	}
	return memstore.New(a.now), nil
}

func (n storeName) options(cfg *config.Config, logger *slog.Logger) dynamostore.Options {
	c := cfg.DynamoDB
	return dynamostore.Options{
		Table: n.table, Ledger: n.ledger, Region: n.region, Endpoint: n.endpoint,
		Meter: c.Meter, Limit: c.Limit, Format: c.Format, Logger: logger,
		Names: dynamostore.Names{Subject: c.Subject, Window: c.Window, Count: c.Count, Plan: c.Plan, Prefix: c.Prefix},
	}
}

// logger logs to stderr, and only what needs a person's attention.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// dataDir returns the folder in which programs keep a user's data on an operating system.
func dataDir(system string, env func(string) string) (string, error) {
	var base string
	missing, home := "HOME", env("HOME")
	switch {
	case system == "windows":
		base, missing = env("LocalAppData"), "LocalAppData"
	case system == "darwin" && home != "":
		base = filepath.Join(home, "Library", "Application Support")
	case filepath.IsAbs(env("XDG_DATA_HOME")): // its specification says to ignore a relative path
		base = env("XDG_DATA_HOME")
	case home != "":
		base = filepath.Join(home, ".local", "share")
	}
	if base == "" {
		return "", usageError("there is no folder for data, since %s is not set; name one with --store embedded:DIR", missing)
	}
	return filepath.Join(base, "headroom"), nil
}

// describe names the store, for a person to read.
func (n storeName) describe() string {
	switch n.kind {
	case "embedded":
		return "embedded:" + n.dir
	case "dynamodb":
		return "dynamodb:" + n.table
	}
	return n.kind + ":"
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
