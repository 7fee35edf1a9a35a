package yamltree

import (
	"os"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	text, _ := os.ReadFile("../job/jobs.schema.json")
	for b.Loop() {
		MustParseSchema(text)
	}
}
