package state

import _ "embed"

//go:embed migrations/0001.sql
var migration1 string

//go:embed migrations/0002.sql
var migration2 string

//go:embed migrations/0003.sql
var migration3 string

//go:embed migrations/0004.sql
var migration4 string

//go:embed migrations/0005.sql
var migration5 string

//go:embed migrations/0006.sql
var migration6 string

//go:embed migrations/0007.sql
var migration7 string

//go:embed migrations/0008.sql
var migration8 string

//go:embed migrations/0009.sql
var migration9 string

//go:embed migrations/0010.sql
var migration10 string

//go:embed migrations/0011.sql
var migration11 string

//go:embed migrations/0012.sql
var migration12 string

//go:embed migrations/0013.sql
var migration13 string

//go:embed migrations/0014.sql
var migration14 string

//go:embed migrations/0015.sql
var migration15 string

//go:embed migrations/0016.sql
var migration16 string

//go:embed migrations/0017.sql
var migration17 string

//go:embed migrations/0018.sql
var migration18 string

//go:embed migrations/0019.sql
var migration19 string

//go:embed migrations/0020.sql
var migration20 string

//go:embed migrations/0021.sql
var migration21 string

//go:embed migrations/0022.sql
var migration22 string

//go:embed migrations/0023.sql
var migration23 string

//go:embed migrations/0024.sql
var migration24 string

// migrations lead from one schema version to the next. The version of a file is the number of
// migrations applied to it, so the list is only ever appended to. A test writes latest.sql.
//
// All packages that own tables share one list, since steps of earlier versions change tables of
// several packages, and a file of any version must take the steps in this order.
var migrations = []string{
	migration1, migration2, migration3, migration4, migration5, migration6,
	migration7, migration8, migration9, migration10, migration11, migration12, migration13,
	migration14, migration15, migration16, migration17, migration18, migration19, migration20, migration21,
	migration22, migration23, migration24,
}

// latest is what all migrations lead to: the schema of a new file.
//
//go:embed migrations/latest.sql
var latest string
