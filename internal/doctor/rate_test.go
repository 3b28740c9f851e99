package doctor_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/doctor"
)

// Half of the drift factor is a node's, the other half a client's; what the looks
// can't tell is nobody's fault.
func TestARateIsWarnedOfBeyondHalfTheDriftAndAnErrorBeyondAllOfIt(t *testing.T) {
	const factor = 0.01
	for _, c := range []struct {
		by, bound float64
		want      doctor.Severity
	}{
		{0, 0, 0},
		{0.0049, 0, 0},
		{0.0051, 0, doctor.SeverityWarning},
		{0.0099, 0, doctor.SeverityWarning},
		{0.0101, 0, doctor.SeverityError},
		{0.0833, 0.005, doctor.SeverityError},
		{0.0069, 0.002, 0},
		{0.0071, 0.002, doctor.SeverityWarning},
		{0.0119, 0.002, doctor.SeverityWarning},
		{0.0121, 0.002, doctor.SeverityError},
		{0.004, 0.05, 0},
	} {
		for _, by := range []float64{c.by, -c.by} {
			if got := doctor.RateSeverity(by, c.bound, factor); got != c.want {
				t.Errorf("%v, give or take %v, of a drift factor of %v: got severity %v; want %v", by, c.bound, factor, got, c.want)
			}
		}
	}
}
