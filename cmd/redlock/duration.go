package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"
)

// duration is the value of a flag. Its errors say how one is written.
type duration time.Duration

// durationFlag adds a flag that p gets.
func durationFlag(fs *flag.FlagSet, p *time.Duration, name string, value time.Duration, about string) {
	*p = value
	fs.Var((*duration)(p), name, about)
}

// newDuration adds a flag, and returns what gets it.
func newDuration(fs *flag.FlagSet, name string, value time.Duration, about string) *time.Duration {
	p := new(time.Duration)
	durationFlag(fs, p, name, value, about)
	return p
}

// String is what the flag has.
func (d *duration) String() string { return time.Duration(*d).String() }

// Set reads what was given.
func (d *duration) Set(text string) error {
	v, err := parseDuration(text)
	*d = duration(v)
	return err
}

// parseDuration says what is missing where one does not parse.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("give its unit, as %ss", text)
	}
	return 0, errors.New("give a duration, as 10s or 1m30s")
}

// positive refuses a duration that is none.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usage("%s %v: give a positive duration", flag, d)
	}
	return nil
}
