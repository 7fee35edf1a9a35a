package term

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Is reports whether a reader or writer is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns the size of the terminal w; 0 columns if w is not a terminal. Windows can be resized, so
// callers get it each time.
func Size(w io.Writer) (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	switch {
	case err != nil:
		return 0, 0
	case columns <= 0 || rows <= 0: // a terminal that does not know its size
		return DefaultScreen, 24
	}
	return columns, rows
}

// An Asker asks the user at a terminal.
type Asker struct {
	In  io.Reader
	Out io.Writer
}

// Yes asks a question and reports whether the answer is yes. No input counts as no.
func (a *Asker) Yes(question string) (bool, error) {
	answer, err := a.Line(question + " [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Line asks a question and returns the answer, a line without the space around it.
func (a *Asker) Line(question string) (string, error) {
	fmt.Fprintf(a.Out, "%s ", question)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(answer), nil
}
