// Package lazyregexp compiles regular expressions when they are first used. Most commands need few of those
// that the program declares, and compiling all of them would be a noticeable part of every start.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles an expression at its first call and returns the same [regexp.Regexp]
// ever after. It panics if the expression is invalid, like [regexp.MustCompile].
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
