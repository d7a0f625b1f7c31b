// Command headroom enforces quotas from the command line: see "headroom --help".
package main

import (
	"os"
	_ "time/tzdata" // for a host without a time zone database
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
