#!/bin/sh
# have.sh PROGRAM...: says which of these programs are missing, all at once, and how to get each one.

missing=
miss() {
	missing="$missing
  $1"
}

for program; do
	case $program in
	python3) python3 -c 'import venv, ensurepip' >/dev/null 2>&1 && continue ;;
	*) command -v "$program" >/dev/null 2>&1 && continue ;;
	esac
	case $program in
	go) miss "Go         https://go.dev/dl" ;;
	cc) miss "C compiler apt install build-essential, or xcode-select --install; the race detector needs it" ;;
	cargo) miss "Rust       https://rustup.rs, or apt install cargo" ;;
	npm) miss "Node       https://nodejs.org, or apt install nodejs npm, or brew install node" ;;
	python3) miss "Python 3   https://python.org, or apt install python3 python3-venv, or brew install python" ;;
	*) miss "$program" ;;
	esac
done

if [ -n "$missing" ]; then
	echo "These programs are missing:$missing" >&2
	command -v go >/dev/null 2>&1 && echo "With Go alone, make check works." >&2
	exit 1
fi
