package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"outlierd/outlier"
	"outlierd/sync/forgotten"
	"outlierd/sync/journal"
	"outlierd/sync/ledger"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

func (s *Store) loadForgotten() error {
	return s.DB.View(func(tx *store.Tx) (err error) {
		s.Forgotten, err = forgotten.Load(tx)
		s.Queue.Forgotten = s.Forgotten
		return err
	})
}

// Erasure is what [Store.Forget] erases.
type Erasure struct {
	IDs        []forgotten.ID // with the videos of the channels among them
	Answers    int64          // of the journal that mention one
	Unreadable int64          // of these: are not JSON, so that nothing of them can be kept
}

// Texts are the ids as they stand in texts.
func (e *Erasure) Texts() (texts [][]byte) {
	for _, id := range e.IDs {
		texts = append(texts, []byte(id.ID))
	}
	return texts
}

// Mentions reports what of an answer tells about one of the ids.
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

// Forgettable is what would be erased to forget ids, found in one pass over the journal for the
// videos of channels and one for all. progress is called now and then, with the answers that were
// looked through and all of those; nil calls nothing.
func (s *Store) Forgettable(ctx context.Context, ids []forgotten.ID, progress func(done, of int64)) (*Erasure, error) {
	e := &Erasure{IDs: slices.Clone(ids)}
	if err := s.addPseudonyms(e); err != nil {
		return nil, err
	}
	if err := s.addVideos(ctx, e, progress); err != nil {
		return nil, err
	}
	f := journal.Forgetting{Mentions: e.Mentions(), Texts: e.Texts(), DryRun: true, Progress: progress}
	var err error
	e.Answers, e.Unreadable, err = s.Journal.Forget(ctx, f)
	return e, err
}

// Pseudonyms gives what stands for the ids of authors; see [forgotten.Pseudonyms].
func (s *Store) Pseudonyms() (pseudonym func(id string) string, err error) {
	err = s.DB.Update(func(tx *store.Tx) error {
		pseudonym, err = forgotten.Pseudonyms(tx)
		return err
	})
	return pseudonym, err
}

// addPseudonyms adds what may stand for the ids of authors, and of channels that wrote comments.
func (s *Store) addPseudonyms(e *Erasure) error {
	pseudonym, err := s.Pseudonyms()
	for _, id := range slices.Clone(e.IDs) {
		if err == nil && id.Kind != forgotten.Video {
			e.IDs = append(e.IDs, forgotten.ID{Kind: forgotten.Author, ID: pseudonym(id.ID)})
		}
	}
	return err
}

// addVideos adds the videos of the channels: those that answers show as theirs.
func (s *Store) addVideos(ctx context.Context, e *Erasure, progress func(done, of int64)) error {
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
	_, _, err := s.Journal.Forget(ctx, journal.Forgetting{
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

// Forget erases from the state what it knows of ids, and sees to it that they do not come back:
// from here on they are taken out of answers as these arrive, and no call about them is made. Copies of
// the state from before upgrades go, because they have it too.
// The sinks are not touched; once they hold nothing any more either, [Store.Forgot] ends it. A process
// that is stopped in between has to do all of it again, with the same ids.
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
		for _, erase := range []func(*store.Tx, [][]byte) error{journal.ForgetDrift, ledger.Forget, queue.Forget, runs.Forget} {
			if err := erase(tx, e.Texts()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(s.DB.Compact(ctx), s.DB.RemoveRestorePoints())
}

// Forgot records that nothing of what was to be forgotten is left, in the sinks either.
func (s *Store) Forgot() error {
	return s.DB.Update(forgotten.Finish)
}

// Forgetting counts the ids that were to be forgotten by a process that was stopped.
func (s *Store) Forgetting() (n int, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		n, err = forgotten.Unfinished(tx)
		return err
	})
	return n, err
}
