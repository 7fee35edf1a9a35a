package state

import (
	"context"
	"fmt"
	"slices"

	"outlierd/outlier"
	"outlierd/sync/forgotten"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/marks"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

func (s *Store) loadForgotten() error {
	all, err := forgotten.Load(s.DB)
	s.Forgotten, s.Queue.Forgotten = all, all
	return err
}

// Erasure is what [Store.Forget] erases.
type Erasure struct {
	IDs        []forgotten.ID // with the videos of the channels among them
	Answers    int64          // journal answers that mention one
	Unreadable int64          // those that are not JSON, so that nothing of them can be kept
}

// Texts returns the ids as they appear in texts.
func (e *Erasure) Texts() (texts [][]byte) {
	for _, id := range e.IDs {
		texts = append(texts, []byte(id.ID))
	}
	return texts
}

// Mentions returns a function that reports whether a value in an answer mentions one of the ids.
func (e *Erasure) Mentions() outlier.Mention {
	byText := map[string][]forgotten.ID{}
	for _, id := range e.IDs {
		byText[id.ID] = append(byText[id.ID], id)
	}
	return func(member, text []byte) bool {
		return slices.ContainsFunc(byText[string(text)],
			func(id forgotten.ID) bool { return id.Names(string(member), string(text)) })
	}
}

// Forgettable returns what would be erased to forget ids. It takes one pass over the journal to
// find the videos of channels and one for everything. progress, if not nil, is called repeatedly
// with the number of answers examined and of all answers.
func (s *Store) Forgettable(ctx context.Context, ids []forgotten.ID, progress func(done, of int64)) (*Erasure, error) {
	e := &Erasure{IDs: slices.Clone(ids)}
	if err := e.addPseudonyms(s.DB); err != nil {
		return nil, err
	}
	if err := e.addVideos(ctx, s.Journal, progress); err != nil {
		return nil, err
	}
	f := journal.Forgetting{Mentions: e.Mentions(), Texts: e.Texts(), DryRun: true, Progress: progress}
	var err error
	e.Answers, e.Unreadable, err = s.Journal.Forget(ctx, f)
	return e, err
}

// addPseudonyms adds the possible pseudonyms of authors, and of channels that wrote comments.
func (e *Erasure) addPseudonyms(db *store.Store) error {
	pseudonym, err := forgotten.Pseudonyms(db)
	for _, id := range slices.Clone(e.IDs) {
		if err == nil && id.Kind != forgotten.Video {
			e.IDs = append(e.IDs, forgotten.ID{Kind: forgotten.Author, ID: pseudonym(id.ID)})
		}
	}
	return err
}

// addVideos adds the videos of the channels, as found in answers.
func (e *Erasure) addVideos(ctx context.Context, in *journal.Journal, progress func(done, of int64)) error {
	channels := &Erasure{}
	for _, id := range e.IDs {
		if id.Kind == forgotten.Channel {
			channels.IDs = append(channels.IDs, id)
		}
	}
	if len(channels.IDs) == 0 {
		return nil
	}
	found := map[string]bool{}
	_, _, err := in.Forget(ctx, journal.Forgetting{
		Mentions: channels.Mentions(), Texts: channels.Texts(), DryRun: true, Progress: progress,
		Taken: func(value []byte) {
			for _, id := range outlier.VideoIDs(value) {
				found[id] = true
			}
		},
	})
	for id := range found {
		if video := (forgotten.ID{Kind: forgotten.Video, ID: id}); !slices.Contains(e.IDs, video) {
			e.IDs = append(e.IDs, video)
		}
	}
	return err
}

// Forget erases what the state knows about ids, and prevents them from coming back: from then on
// they are removed from answers as these arrive, and no calls about them are made. The sinks are not
// touched; once they contain nothing about the ids either, [forgotten.Finish] completes the operation. If
// the process is stopped before, all of it must be done again, with the same ids.
func (s *Store) Forget(ctx context.Context, e *Erasure, progress func(done, of int64)) error {
	err := s.DB.Update(func(tx *store.Tx) error { return forgotten.Add(tx, e.IDs) })
	if err == nil {
		err = s.loadForgotten()
	}
	if err != nil {
		return fmt.Errorf("record what is forgotten: %w", err)
	}
	f := journal.Forgetting{Mentions: e.Mentions(), Texts: e.Texts(), Progress: progress}
	if e.Answers, e.Unreadable, err = s.Journal.Forget(ctx, f); err != nil {
		return err
	}
	err = s.DB.Update(func(tx *store.Tx) error {
		for _, erase := range []func(*store.Tx, [][]byte) error{
			journal.ForgetDrift, ledger.Forget, queue.Forget, runs.Forget, marks.Forget, store.EraseMeta,
		} {
			if err := erase(tx, e.Texts()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.DB.Compact(ctx)
}
