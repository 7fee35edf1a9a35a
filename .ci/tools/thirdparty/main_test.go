package main

import (
	"strings"
	"testing"
)

func TestUnlistedLicenceIsRefused(t *testing.T) {
	mit, err := linked.ReadFile("linked/duckdb-fmt.txt")
	if err != nil {
		t.Fatal(err)
	}
	gpl := "This program is free software: you can redistribute it and/or modify it under the terms of the GNU " +
		"General Public License as published by the Free Software Foundation, either version 3 of the License, or " +
		"(at your option) any later version."
	for name, c := range map[string]struct{ content, want string }{
		"permissive": {string(mit), ""},
		"GPL":        {gpl, "example.com/m: licence GPL-3.0"},
		"both":       {string(mit) + "\n" + gpl, "is not on the list of permissive ones"},
		"none":       {"All rights reserved.", "example.com/m: no known licence in 1 files"},
	} {
		_, err := classify(&component{Name: "example.com/m", texts: []text{{"LICENSE", c.content}}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
