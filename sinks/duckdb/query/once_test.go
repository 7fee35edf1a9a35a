package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSQLRunsOncePerPublication(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outliers.duckdb")
	publish := func() {
		fresh := path + ".new"
		if err := errors.Join(os.WriteFile(fresh, nil, 0o444), os.Rename(fresh, path)); err != nil {
			t.Fatal(err)
		}
	}
	slow, asked := errors.New("the SQL took longer than 30s"), 0
	find := Finder(func(ctx context.Context, sql, column string) ([]string, error) {
		asked++
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if sql == "slow" {
			return nil, slow
		}
		return []string{fmt.Sprint(sql, " ", column, " ", asked)}, nil
	}).Once(path)
	gives := func(sql, column, want string) {
		t.Helper()
		if got, err := find(t.Context(), sql, column); !slices.Equal(got, []string{want}) || err != nil {
			t.Errorf("%s: %v, %v; want %s", sql, got, err, want)
		}
	}
	gives("a", "video_id", "a video_id 1") // when there is no file yet
	gives("a", "video_id", "a video_id 1")
	publish()
	gives("a", "video_id", "a video_id 2")
	gives("a", "channel_id", "a channel_id 3")
	gives("b", "video_id", "b video_id 4")
	gives("a", "video_id", "a video_id 2")
	for range 2 {
		if _, err := find(t.Context(), "slow", "video_id"); !errors.Is(err, slow) || asked != 5 {
			t.Errorf("asked %d times: %v", asked, err)
		}
	}
	publish()
	gives("a", "video_id", "a video_id 6")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := find(interrupted, "c", ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	gives("c", "", "c  8")
}
