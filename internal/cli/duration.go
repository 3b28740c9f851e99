package cli

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"
)

// duration is the value of a flag. Its errors say how one is written.
type duration time.Duration

// DurationFlag adds a flag that p gets.
func DurationFlag(fs *flag.FlagSet, p *time.Duration, name string, value time.Duration, about string) {
	*p = value
	fs.Var((*duration)(p), name, about)
}

// NewDuration adds a flag, and returns what gets it.
func NewDuration(fs *flag.FlagSet, name string, value time.Duration, about string) *time.Duration {
	p := new(time.Duration)
	DurationFlag(fs, p, name, value, about)
	return p
}

// String is what the flag has.
func (d *duration) String() string { return time.Duration(*d).String() }

// Set reads what was given.
func (d *duration) Set(text string) error {
	v, err := ParseDuration(text)
	*d = duration(v)
	return err
}

// ParseDuration says what is missing where one does not parse.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("give its unit, as %ss", text)
	}
	return 0, errors.New("give a duration, as 10s or 1m30s")
}

// Positive refuses a duration that is none.
func Positive(flag string, d time.Duration) error {
	if d <= 0 {
		return Usagef("%s %v: give a positive duration", flag, d)
	}
	return nil
}

// Short is a duration for people.
func Short(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 0:
		return "for ever"
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}
