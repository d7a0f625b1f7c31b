module github.com/lumcast/headroom

go 1.26
