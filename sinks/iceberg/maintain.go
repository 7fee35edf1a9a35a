//go:build iceberg

package iceberg

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
)

// mostOfFile is about how large a file becomes, in bytes, before another one is begun.
const mostOfFile = 128 << 20

// expire removes snapshots that are older, of which the newest stays, and files that only they have.
func (l *lakeTable) expire(ctx context.Context, age time.Duration) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	if len(l.table.Metadata().Snapshots()) < 2 {
		return nil
	}
	tx := l.table.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithOlderThan(age), table.WithRetainLast(1)); err != nil {
		return fmt.Errorf("expire snapshots: %w", err)
	}
	committed, err := tx.Commit(ctx)
	if err != nil {
		l.forget()
		return fmt.Errorf("expire snapshots: %w", err)
	}
	return l.take(ctx, committed)
}
