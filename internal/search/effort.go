package search

import "os"

// Whole tells whether to search all of it, not the cut of every day.
func Whole() bool { return os.Getenv("REDLOCK_SEARCH") == "full" }
