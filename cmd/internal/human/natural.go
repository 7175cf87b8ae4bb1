package human

import "strings"

// Natural compares names as people count: node-2 comes before node-10.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return int(x[0]) - int(y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		one, other := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if len(one) != len(other) {
			return len(one) - len(other)
		}
		if one != other {
			return strings.Compare(one, other)
		}
		x, y = x[m:], y[n:]
	}
	if len(x) != len(y) {
		return len(x) - len(y)
	}
	return strings.Compare(a, b)
}

// digits returns how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
