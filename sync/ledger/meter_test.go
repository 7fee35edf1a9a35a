package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"outlierd/outlier"
)

// maxErrorText is how many bytes are kept of a text.
const maxErrorText = 500

// The ledger keeps the kind and message of an error, but not its cause, which may contain the key.
func TestLedgerOmitsCausesOfErrors(t *testing.T) {
	cause := errors.New("Authorization: Api-Key secret")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&outlier.Error{Kind: outlier.Lost, Cause: cause}, "lost"},
		{fmt.Errorf("try: %w", &outlier.Error{Kind: outlier.Limited, Message: "slow down", Cause: cause}), "limited: slow down"},
		{errors.New(strings.Repeat("x", 2*maxErrorText)), strings.Repeat("x", maxErrorText)},
	} {
		if got := errorText(c.err); got != c.want {
			t.Errorf("kept %q, want %q", got, c.want)
		}
	}
}
