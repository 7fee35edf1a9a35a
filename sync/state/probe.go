package state

import "fmt"

// Sighted counts the distinct hits that the run's step has brought before. The hits
// of a page that tells something about paging are judged before they are added.
func (t *Tx) Sighted(run string, step int64, hits []Hit) (known int, err error) {
	number, err := t.number(run)
	if err != nil {
		return 0, err
	}
	counted := make(map[string]bool, len(hits))
	for _, hit := range hits {
		if counted[hit.VideoID] {
			continue
		}
		counted[hit.VideoID] = true
		var one int
		err := t.row(`SELECT count(*) FROM run_hits WHERE run = ? AND step = ? AND video = ?`, number, step, hit.VideoID).Scan(&one)
		if err != nil {
			return 0, fmt.Errorf("look for hit %s: %w", hit.VideoID, err)
		}
		known += one
	}
	return known, nil
}

// Rank places the hits of an answer: they stand after so many hits of the result, on
// the given page. It is for the answer that is being settled, which may turn out to
// be another page than was asked for.
func (t *Tx) Rank(response int64, page, rankBase int) error {
	result, err := t.exec(`UPDATE responses SET page = ?, rank_base = ? WHERE id = ?`, page, rankBase, response)
	if err := found(result, err); err != nil {
		return fmt.Errorf("place the hits of answer %d: %w", response, err)
	}
	return nil
}
