package warehouse

import (
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// changeOf returns the SQL that brings rows into a table, as its kind says. They are the [stagedRows] of from, in the
// order of the journal, and so are their rowids. If deleting is set, [stagedGone] has identities whose rows are
// deleted. The columns without are left NULL.
func changeOf(t, from *schema.Table, deleting bool, without []string) string {
	var sql []string
	switch {
	case t.Identity() == nil && t.Kind == schema.Changes:
		sql = []string{insertChanged}
	case t.Identity() == nil:
		sql = []string{insertAll}
	case deleting:
		sql = []string{dropGone, takeOut, dropOld, putIn(t), "DROP TABLE temp.old"}
	default:
		sql = []string{takeOut, putIn(t), "DROP TABLE temp.old"}
	}
	return placeholders(t, from, deleting, without).Replace(strings.Join(sql, ";\n"))
}

const insertAll = `INSERT INTO {table} ({columns}) SELECT {columns} FROM {rows}`

// insertChanged inserts the rows that differ from the row of their key before them, which may be in the table.
const insertChanged = insertAll + ` WHERE rowid IN (
	SELECT n FROM (
		SELECT n, lag(compared) OVER (PARTITION BY key ORDER BY n) IS DISTINCT FROM compared AS differs FROM (
			SELECT -1 AS n, row({identity}) AS key, row({compared}) AS compared FROM {table} WHERE rowid IN (
				SELECT max(t.rowid) FROM {table} AS t JOIN ({identities}) AS k ON {t = k} GROUP BY {k.identity})
			UNION ALL
			SELECT rowid, row({identity}), row({compared}) FROM {rows}))
	WHERE differs AND n >= 0)
ORDER BY rowid`

// dropGone drops the rows that are older than the deletion of their identity. Copies may have them all the same, if
// the warehouse was made again.
const dropGone = `INSERT INTO warehouse.outlierd.deleted
	SELECT DISTINCT {name}, r._response_id, g.at, hash({r.identity}) FROM {rows} AS r JOIN {gone} AS g ON {r = g} WHERE r._response_id < g.at;
DELETE FROM {rows} WHERE rowid IN (
	SELECT r.rowid FROM {rows} AS r JOIN {gone} AS g ON {r = g} WHERE r._response_id < g.at)`

// takeOut moves the rows that are replaced or deleted from the table to temp.old, as far as others take something over
// from them.
const takeOut = `CREATE TEMP TABLE old AS
	SELECT t.rowid AS place, {t.carried} FROM {table} AS t JOIN ({identities}) AS k ON {t = k};
DELETE FROM {table} WHERE rowid IN (SELECT place FROM temp.old)`

// dropOld makes sure that nothing but their number is taken over from rows that were deleted, and records that these
// are gone.
const dropOld = `INSERT INTO warehouse.outlierd.deleted
	SELECT DISTINCT {name}, o._first_response_id, g.at, hash({o.identity}) FROM temp.old AS o JOIN {gone} AS g ON {o = g};
DELETE FROM temp.old WHERE rowid IN (SELECT o.rowid FROM temp.old AS o JOIN {gone} AS g ON {o = g})`

// putIn returns the SQL that inserts the rows that stand: of a Current table the last one of each key, of others those
// of a parent's last answer.
func putIn(t *schema.Table) string {
	switch {
	case t.Kind != schema.Current:
		return putInChildren
	case t.Grows == "":
		return putInCurrent + `
	FROM (SELECT {identity}, max(rowid) AS last, min(_response_id) AS answer, count(*) AS times,
			arg_min(observed_at, rowid) AS since{imported}
		FROM {rows} GROUP BY {identity}) AS f` + takeOver
	}
	return putInCurrent + `,
		CASE WHEN f.step IS NULL THEN o.previous_seen_at ELSE f.step.at END,
		CASE WHEN f.step IS NULL THEN o.{previous} ELSE f.step.value END
	FROM (SELECT {identity}, max(n) AS last, min(_response_id) AS answer, count(*) AS times,
			arg_min(observed_at, n) AS since{imported},
			arg_max(before, n) FILTER (` + daySQL("before.at") + " < " + daySQL("observed_at") + `) AS step
		FROM (SELECT {r.identity}, r.rowid AS n, r._response_id, r.observed_at{r.imported},
				coalesce(lag({'at': r.observed_at, 'value': r.{grows}}) OVER (PARTITION BY {r.identity} ORDER BY r.rowid),
					{'at': o.last_seen_at, 'value': o.{grows}}) AS before
			FROM {rows} AS r LEFT JOIN temp.old AS o ON {r = o})
		GROUP BY {identity}) AS f` + takeOver
}

const (
	putInChildren = `INSERT INTO {table} ({columns}, _first_response_id)
	SELECT {r.columns}, coalesce(o.first, d.first, f.answer)
	FROM (SELECT {identity}, max(_response_id) AS last, min(_response_id) AS answer FROM {rows} GROUP BY {identity}) AS f
	JOIN {rows} AS r ON r._response_id = f.last AND {r = f}
	LEFT JOIN (SELECT {identity}, min(_first_response_id) AS first FROM temp.old GROUP BY {identity}) AS o ON {r = o}` + wasDeleted

	putInCurrent = `INSERT INTO {table} ({columns}, {computed})
	SELECT {r.columns}, coalesce(o._first_response_id, d.first, f.answer), {first_seen_at}, r.observed_at,
		f.times + coalesce(o.times_seen, 0)`

	takeOver = `
	JOIN {rows} AS r ON r.rowid = f.last
	LEFT JOIN temp.old AS o ON {r = o}` + wasDeleted

	// wasDeleted finds the number of a row that was deleted and comes back: copies look for it in the same part.
	wasDeleted = `
	LEFT JOIN (SELECT hash, min("placing") AS first FROM warehouse.outlierd.deleted WHERE table_name = {name} GROUP BY hash) AS d
		ON d.hash = hash({r.identity})`
)

// daySQL returns the SQL of the day of a time in UTC. DuckDB rounds a day before 1970 down, too, but not a quotient.
func daySQL(time string) string { return "make_timestamp(epoch_us(" + time + "))::DATE" }

// placeholders replaces the names in braces of the SQL above.
func placeholders(t, from *schema.Table, deleting bool, without []string) *strings.Replacer {
	declared := t.Schema().NumFields()
	var columns, compared, computed []string
	for i, c := range t.All() {
		switch {
		case slices.Contains(without, c.Name):
		case i < len(t.Columns):
			columns = append(columns, c.Name)
			compared = append(compared, database.Name(c.Name)+"::"+schema.SQLType(c.Type)) // JSON is staged as text
		case i < declared:
			columns = append(columns, c.Name)
		default:
			computed = append(computed, c.Name)
		}
	}
	identity := t.Identity() // of tables that only grow nil, and of Changes the key
	if t.Kind == schema.Changes {
		identity = t.Key
	}
	rows, gone := "temp."+stagedRows(from), "temp."+stagedGone(t)
	identities := "SELECT " + database.Names("", identity) + " FROM " + rows
	if deleting {
		identities += " UNION ALL SELECT " + database.Names("", identity) + " FROM " + gone
	}
	carried := slices.Concat(identity, computed)
	if t.Grows != "" {
		carried = append(carried, t.Grows)
	}
	first, imported, ofRow := "coalesce(o.first_seen_at, f.since)", "", ""
	if slices.Contains(columns, schema.ImportedSeenAt) {
		first = "least(" + first + ", f.imported)"
		imported, ofRow = ", min("+schema.ImportedSeenAt+") AS imported", ", r."+schema.ImportedSeenAt
	}
	return strings.NewReplacer(
		"{first_seen_at}", first, "{imported}", imported, "{r.imported}", ofRow,
		"{name}", database.Text(t.Name), "{table}", database.TableName(t), "{rows}", rows,
		"{gone}", "(SELECT "+database.Names("", identity)+", max(_response_id) AS at FROM "+gone+" GROUP BY ALL)",
		"{columns}", database.Names("", columns), "{r.columns}", database.Names("r.", columns), "{computed}", database.Names("", computed),
		"{t.carried}", database.Names("t.", carried), "{identities}", "SELECT DISTINCT * FROM ("+identities+")",
		"{identity}", database.Names("", identity), "{r.identity}", database.Names("r.", identity), "{o.identity}", database.Names("o.", identity),
		"{k.identity}", database.Names("k.", identity), "{compared}", strings.Join(compared, ", "),
		"{t = k}", database.Same("t.", "k.", identity),
		"{r = o}", database.Same("r.", "o.", identity), "{r = f}", database.Same("r.", "f.", identity),
		"{r = g}", database.Same("r.", "g.", identity), "{o = g}", database.Same("o.", "g.", identity),
		"{grows}", database.Name(t.Grows), "{previous}", database.Name(t.Previous()))
}
