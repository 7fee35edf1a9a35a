package job

import (
	"time"

	"outlierd/internal/sealed"
	"outlierd/sync/yamltree"
)

// Backup says which backups of the state `outlierd up` makes.
type Backup struct {
	To      string        `key:"to"` // the absolute path of a folder, or the address of a bucket
	Every   time.Duration `key:"every"`
	Keep    int           `key:"keep"`
	Encrypt []string      `key:"encrypt"` // public keys of age; none for plain backups
}

const maxRecipients = 20

func readBackup(c *Config, n *yamltree.Node) {
	if !n.Has(yamltree.Mapping) {
		return
	}
	to, at := &Backup{}, n.Get("to")
	readKeys(to, schema().Get("backup"), n)
	c.Backup = to
	checkRecipients(n.Get("encrypt"), to.Encrypt)
	if to.To == "" { // refused by the schema
		return
	}
	if isAddress(to.To) {
		to.To = checkBucket(c, at, to.To)
	} else {
		to.To = absolutePath(c, at, to.To)
	}
	if within(to.To, c.Data) {
		at.RefuseWithHint("choose a folder on another disk, or a bucket", "must not be inside the data folder, with which it would be lost")
	}
	for _, sink := range c.Sinks {
		if sink.Bucket != "" && to.To != "" && (within(to.To, sink.Bucket) || within(sink.Bucket, to.To)) {
			at.Refuse("must not overlap with the bucket of the %s sink", sink.Kind)
		}
		if sink.Lake != nil && sink.Lake.Warehouse != "" && within(to.To, sink.Lake.Warehouse) {
			at.Refuse("must not be inside the warehouse of the iceberg sink")
		}
	}
}

// parseRecipient parses a public key.
func parseRecipient(text string) (string, error) { return text, sealed.Check([]string{text}) }

// checkRecipients refuses keys to which nothing can be encrypted together.
func checkRecipients(n *yamltree.Node, all []string) {
	if len(all) > maxRecipients {
		n.Refuse("must have at most %d keys", maxRecipients)
	} else if err := sealed.Check(all); err != nil && len(all) > 1 {
		n.Refuse("%v", err)
	}
}
