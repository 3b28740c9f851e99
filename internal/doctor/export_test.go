package doctor

// RateSeverity is what the doctor makes of a clock that runs faster by so much, give or
// take the bound.
func RateSeverity(by, bound, factor float64) Severity {
	return rate{by: by, bound: bound}.severity(factor)
}
