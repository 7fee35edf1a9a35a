package runs

import (
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// Imported is a video that was seen before, by other means than a run.
type Imported struct {
	Video     string    `json:"video_id"`
	FirstSeen time.Time `json:"first_seen_at"`
	Origin    string    `json:"origin,omitempty"` // name of the file
	At        time.Time `json:"imported_at,omitzero"`
}

func (i *Imported) columns() store.Columns {
	return store.Columns{"video": &i.Video, "first_seen": store.Time(&i.FirstSeen), "origin": &i.Origin, "at": store.Time(&i.At)}
}

// Import records videos that were seen before. They count as known to all later runs, as if a complete search had
// covered them. Those that were imported before stay as they are. It returns how many were added.
func Import(tx *store.Tx, origin string, videos []Imported) (added int, err error) {
	after, err := journal.LastID(tx)
	if err != nil {
		return 0, err
	}
	list := make([][2]any, len(videos))
	for i, v := range videos {
		list[i] = [2]any{v.Video, store.Micros(v.FirstSeen)}
	}
	text := store.JSON(list)
	rows, err := tx.Change(`INSERT INTO imported (video, first_seen, origin, at, after)
		SELECT value ->> 0, value ->> 1, ?2, ?3, ?4 FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
		text, origin, store.Micros(tx.Now()), after)
	if err != nil {
		return 0, err
	}
	err = tx.Exec(`INSERT INTO seen (video, run, covered) SELECT value ->> 0, 0, 0 FROM json_each(?1) WHERE true
		ON CONFLICT DO UPDATE SET covered = 0 WHERE covered = ?2`, text, uncovered)
	return int(rows), err
}

// ImportOf returns the import of a video; nil if there was none.
func (hs *Hits) ImportOf(video string) (*Imported, error) {
	return store.First(hs.db, (*Imported).columns, `FROM imported WHERE video = ?`, video)
}

// HasImports reports whether any video was imported.
func (hs *Hits) HasImports() (bool, error) {
	return store.Value[bool](hs.db, `SELECT EXISTS (SELECT 1 FROM imported)`)
}

// ImportedBefore returns when videos were first seen, of those that were imported before an answer.
func (hs *Hits) ImportedBefore(answer int64, videos []string) (map[string]time.Time, error) {
	all, err := store.Select(hs.db, (*Imported).columns,
		`FROM imported WHERE video IN (SELECT value FROM json_each(?)) AND after < ?`, store.JSON(videos), answer)
	found := make(map[string]time.Time, len(all))
	for _, v := range all {
		found[v.Video] = v.FirstSeen
	}
	return found, err
}
