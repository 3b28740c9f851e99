package simnode

// atTheEnd is the largest whole number that a Lua number counts up to.
const atTheEnd = 1<<53 - 1

// number is tonumber for what scripts meet: whole numbers up to 2^53.
func number(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 17 {
		return 0, false
	}
	negative := text[0] == '-'
	if negative && len(text) > 1 {
		text = text[1:]
	}
	for _, d := range text {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = 10*n + int64(d-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// numberIn is the number in a field; 0 if there is none.
func numberIn(f map[string]string, name []byte) (int64, bool) {
	v, there := f[string(name)]
	if !there {
		return 0, true
	}
	return number([]byte(v))
}

// largerIn is the larger one of two fields' numbers.
func largerIn(f map[string]string, name, other []byte) (int64, bool) {
	a, ok := numberIn(f, name)
	b, too := numberIn(f, other)
	return max(a, b), ok && too
}
