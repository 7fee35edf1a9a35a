package state

import _ "embed"

//go:embed migrations/0001.sql
var migration1 string

// migrations lead from one schema version to the next. The version of a file is the number of
// migrations applied to it, so once a release has one, the list is only appended to.
//
// All packages that own tables share one list, since a step may change tables of several packages, and
// a file of any version must take the steps in this order.
var migrations = []string{migration1}
