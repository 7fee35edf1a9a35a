package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"outlierd/internal/durable"
	"outlierd/outlier"
)

// A ChannelList is a file of channels: one per line, or a column of a table. People may name a channel in it
// in any way that [outlier.ParseChannel] reads.
type ChannelList struct {
	source  Source
	text    string
	entries []value
	Names   []string // what ParseChannel returns for each entry, in the order of the file
}

// ReadChannels reads a list of channels. column is that of a table; "" for a file of lines. The error has
// every line that names no channel.
func ReadChannels(path, column string) (*ChannelList, error) {
	l := &ChannelList{source: Source{File: path, Name: strconv.Quote(path), Field: column}}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of channels: %w", err)
	}
	entries, wrong, err := l.source.readFile()
	if err != nil {
		return nil, err
	}
	l.text, l.entries = string(text), entries
	for _, e := range entries {
		name, err := outlier.ParseChannel(e.text)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", l.source.placeOf(e.line), err))
		}
		l.Names = append(l.Names, name)
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "\n"))
	}
	return l, nil
}

// Write replaces the entries of the file by the channel ids known for their names, and returns how many it
// has replaced. In a file of lines what stood there becomes a comment. It changes nothing else but line ends
// other than \n and \r\n, and nothing at all if the file was edited meanwhile.
func (l *ChannelList) Write(ids map[string]string) (changed int, err error) {
	lines := strings.SplitAfter(asShown.Replace(l.text), "\n")
	for i, e := range l.entries {
		id := ids[l.Names[i]]
		if id == "" || id == e.text {
			continue
		}
		if l.source.Field == "" {
			id += " # " + e.text
		}
		at := &lines[e.line-1]
		begin := e.column + strings.Index((*at)[e.column:], e.text)
		*at = (*at)[:begin] + id + (*at)[begin+len(e.text):]
		changed++
	}
	if changed == 0 {
		return 0, nil
	}
	text := strings.Join(lines, "")
	if strings.Contains(l.text, "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if err := l.replaceFile(text); err != nil {
		return 0, fmt.Errorf("write the ids into %s: %w", l.source.Name, err)
	}
	return changed, nil
}

// replaceFile replaces the file by one rename, so that a run never reads half of it.
func (l *ChannelList) replaceFile(text string) error {
	path, err := filepath.EvalSymlinks(l.source.File)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(path)
	if err == nil && string(now) != l.text {
		err = errors.New("it was edited meanwhile, so nothing was written; run the command again, which finds the same ids for free")
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(text), info.Mode().Perm())
}
