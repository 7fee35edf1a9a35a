package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// A Block is a few lines at a terminal that are redrawn in place, such as progress.
type Block struct {
	w       io.Writer
	columns func() int

	mu    sync.Mutex
	lines []string // on the screen now
}

// NewBlock returns a block that is drawn on w, a terminal whose width the function columns returns.
func NewBlock(w io.Writer, columns func() int) *Block { return &Block{w: w, columns: columns} }

// Above returns a writer for other output on the same terminal, such as logs. A write erases the block,
// and the next Draw puts it below the text.
func (b *Block) Above(w io.Writer) io.Writer { return above{w, b} }

type above struct {
	w     io.Writer
	block *Block
}

func (a above) Write(text []byte) (int, error) {
	a.block.mu.Lock()
	defer a.block.mu.Unlock()
	a.block.clearBlock()
	return a.w.Write(text)
}

// Draw replaces the block by lines.
func (b *Block) Draw(lines ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	columns := max(b.columns(), 2)
	var out strings.Builder
	b.rewindBlock(&out, columns)
	b.lines = nil
	for _, line := range lines {
		b.lines = append(b.lines, Clip(line, columns-1))
		out.WriteString(b.lines[len(b.lines)-1] + "\n")
	}
	_, _ = io.WriteString(b.w, out.String()) // a closed terminal does not stop a run
}

// rewindBlock moves to the block's first character and clears from there. It allows for lines that wrapped
// because the terminal was made narrower, and for a ^C that the terminal echoed at the cursor.
func (b *Block) rewindBlock(out *strings.Builder, columns int) {
	if len(b.lines) == 0 {
		return
	}
	rows := 0
	for _, line := range b.lines {
		rows += max(1, (Width(line)+columns-1)/columns)
	}
	fmt.Fprintf(out, "\r\x1b[%dA\x1b[J", rows)
}

// Erase removes the block from the screen.
func (b *Block) Erase() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clearBlock()
}

func (b *Block) clearBlock() {
	if len(b.lines) == 0 {
		return
	}
	var out strings.Builder
	b.rewindBlock(&out, max(b.columns(), 2))
	b.lines = nil
	_, _ = io.WriteString(b.w, out.String())
}
