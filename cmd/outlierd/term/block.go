package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// A Block is a few lines at a terminal that are redrawn in place, such as progress.
type Block struct {
	w    io.Writer
	size func() (columns, rows int)

	mu    sync.Mutex
	lines []string // on the screen now
}

// NewBlock returns a block that is drawn on w, a terminal whose size the function size returns.
func NewBlock(w io.Writer, size func() (columns, rows int)) *Block { return &Block{w: w, size: size} }

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

// Draw replaces the block by the lines that text returns for the number of lines that fit. A line that
// has scrolled off the top could not be redrawn.
func (b *Block) Draw(text func(rows int) []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	columns, rows := b.size()
	columns = max(columns, 2)
	var out strings.Builder
	b.rewindBlock(&out, columns)
	b.lines = text(rows - 1)
	for i, line := range b.lines {
		b.lines[i] = Clip(line, columns-1)
		out.WriteString(b.lines[i] + "\n")
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
	columns, _ := b.size()
	b.rewindBlock(&out, max(columns, 2))
	b.lines = nil
	_, _ = io.WriteString(b.w, out.String())
}
