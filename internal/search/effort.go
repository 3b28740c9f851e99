package search

import "os"

// Whole tells whether to search all of it, not the cut of every day.
func Whole() bool { return os.Getenv("REDLOCK_SEARCH") == "full" }

// Of is how many of something to try: all, or the few of every day.
func Of[N int | uint64](few, all N) N {
	if Whole() {
		return all
	}
	return few
}
