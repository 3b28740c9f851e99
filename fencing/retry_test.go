package fencing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// state is an error of PostgreSQL's drivers.
type state string

func (s state) Error() string    { return "SQLSTATE " + string(s) }
func (s state) SQLState() string { return string(s) }

func postgresGuard(t *testing.T, opts ...fencing.SQLOption) *fencing.SQL {
	t.Helper()
	guard, err := fencing.NewSQL(fencing.PostgreSQL(), opts...)
	testkit.Must(t, err)
	return guard
}

func TestRetryRunsAgainWhatTheDatabaseGaveUpAndNothingElse(t *testing.T) {
	guard := postgresGuard(t)
	stale := &fencing.StaleError{Resource: "r", Token: 1, Highest: 2}
	mine := errors.New("the caller's own")
	for _, tt := range []struct {
		name string
		ends []error
		want error // of the last attempt
	}{
		{"success", []error{nil}, nil},
		{"a serialization failure, a deadlock, success", []error{state("40001"), state("40P01"), nil}, nil},
		{"a stale token", []error{stale}, stale},
		{"a stale token after a deadlock", []error{state("40P01"), stale}, stale},
		{"a missing table", []error{state("42P01")}, state("42P01")},
		{"an error of the caller", []error{mine}, mine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				err := guard.Retry(t.Context(), func(context.Context) error {
					attempts++
					return tt.ends[min(attempts, len(tt.ends))-1]
				})
				if err != tt.want || attempts != len(tt.ends) { //nolint:errorlint // that it is not wrapped is what is tested
					t.Errorf("got %v after %d attempts; want %v after %d", err, attempts, tt.want, len(tt.ends))
				}
			})
		})
	}
}

func TestRetryPausesLongerEachTimeAndEndsWithItsContext(t *testing.T) {
	guard := postgresGuard(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var starts []time.Time
		err := guard.Retry(ctx, func(context.Context) error {
			starts = append(starts, time.Now())
			return state("40001")
		})
		if !errors.Is(err, context.DeadlineExceeded) || !guard.Retryable(err) {
			t.Errorf("got %v; want the context's end and the last attempt's error", err)
		}
		// 5, 10, ... 320, 500, 500, ... ms at the most, half of it at the least.
		if len(starts) < 25 || len(starts) > 55 {
			t.Errorf("got %d attempts in 10s; want 25 to 55", len(starts))
		}
		most := 5 * time.Millisecond
		for i := range len(starts) - 1 {
			if pause := starts[i+1].Sub(starts[i]); pause < most/2 || pause > most {
				t.Errorf("pause %d: got %v; want %v to %v", i, pause, most/2, most)
			}
			most = min(2*most, 500*time.Millisecond)
		}
		if took := time.Since(starts[0]); took != 10*time.Second {
			t.Errorf("got an end after %v; want that of the context, 10s", took)
		}
	})
}
