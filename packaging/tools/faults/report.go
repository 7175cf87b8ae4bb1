package main

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// total adds up results.
type total struct {
	caught, not int
	took        time.Duration
}

// report prints the results by room and by kind. The error is for faults that no test has caught.
func report(results []result) error {
	var all total
	rooms, kinds := map[string]total{}, map[string]total{}
	for _, r := range results {
		all = all.with(r)
		rooms[r.room()] = rooms[r.room()].with(r)
		kinds[string(r.kind)] = kinds[string(r.kind)].with(r)
	}
	for _, table := range []struct {
		title string
		rows  map[string]total
	}{{"room", rooms}, {"kind", kinds}, {"all", map[string]total{"": all}}} {
		fmt.Printf("\n%-20s %8s %8s %12s %8s\n", table.title, "faults", "caught", "not caught", "seconds")
		for _, name := range slices.Sorted(maps.Keys(table.rows)) {
			s := table.rows[name]
			fmt.Printf("%-20s %8d %8d %12d %8.0f\n", name, s.caught+s.not, s.caught, s.not, s.took.Seconds())
		}
	}
	if all.not == 0 {
		return nil
	}
	fmt.Println()
	for _, r := range results {
		if r.by == "" {
			fmt.Printf("not caught: %s, %s: %s\n", r.file, r.in, r.slip)
		}
	}
	return fmt.Errorf("%d of %d faults are not caught: write a test for each, or remove the code that guards nothing", all.not, len(results))
}

func (s total) with(r result) total {
	if s.took += r.took; r.by == "" {
		s.not++
	} else {
		s.caught++
	}
	return s
}
