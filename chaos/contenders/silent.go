package contenders

import "context"

// quiet is a logger of ZooKeeper's and MySQL's clients that writes nothing: what a
// holder is told is in its records.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Print(...any)          {}

// silent is the same for go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
