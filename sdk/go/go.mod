module github.com/a2s/core

go 1.23
