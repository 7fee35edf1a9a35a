package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"outlierd/sync/store"
)

// ByHand begins the names of one-off requests, which no job buys. Together they have one account of this name, so
// that one cap applies to all of them.
const ByHand = "once:"

// Assistants begins the names of those one-off requests that assistants make. They have an account of this name, which
// is a part of ByHand: what they spend counts for both.
const Assistants = ByHand + "mcp:"

// accountOf returns the account of a job: the name that the job had when it was first seen. A renamed
// job does not get a fresh budget.
func accountOf(tx *store.Tx, job string) (string, error) {
	for _, account := range []string{Assistants, ByHand} {
		if strings.HasPrefix(job, account) {
			return account, nil
		}
	}
	account, err := store.Value[string](tx, `SELECT account FROM jobs WHERE job = ?`, job)
	return cmp.Or(account, job), err
}

// HandOver moves the account of the old name to the new one, and gives the old name a fresh account for the next job
// of that name. A new name that has already spent something keeps its own account.
func HandOver(tx *store.Tx, old, new string, rename int64) error {
	account, err := accountAfter(tx, old, new)
	if err != nil {
		return err
	}
	return errors.Join(tx.Exec(`DELETE FROM jobs WHERE job IN (?, ?)`, old, new),
		tx.Exec(`INSERT INTO jobs (job, account) VALUES (?, ?), (?, ?)`, new, account, old, fmt.Sprintf("%s~%d", old, rename)))
}

func accountAfter(tx *store.Tx, old, new string) (string, error) {
	own, err := accountOf(tx, new)
	if err != nil {
		return "", err
	}
	spent, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE price > 0 AND account = ?)`, own)
	if err != nil || spent {
		return own, err
	}
	return accountOf(tx, old)
}
