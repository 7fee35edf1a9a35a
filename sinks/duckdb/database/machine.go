package database

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// assumedMemory is the assumed memory of a machine that does not report it, in bytes.
const assumedMemory = 2 << 30

// Memory returns the memory that this process may use, in bytes: the machine's, or a lower limit of the
// container or of a control group above it.
func Memory() int64 { return memoryOf(os.DirFS("/")) }

// memoryOf reads the memory of a machine from the files in root.
func memoryOf(root fs.FS) int64 {
	least := int64(assumedMemory)
	if total := memTotal(root); total > 0 {
		least = total
	}
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		switch {
		case fields[0] == "0":
			least = min(least, groupLimit(root, "sys/fs/cgroup", fields[2], "memory.max"),
				groupLimit(root, "sys/fs/cgroup/unified", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			least = min(least, groupLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return least
}

// memTotal returns the machine's memory in bytes; 0 if it is unknown.
func memTotal(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// groupLimit returns the lowest limit of a control group and its parents. In a container, the path of the
// group may be that on the host, where only the root exists.
func groupLimit(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		text, err := fs.ReadFile(root, path.Join(mount, group, file))
		limit, invalid := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // or "max"
		if err == nil && invalid == nil && limit > 0 {
			least = min(least, limit)
		}
		if group == "/" {
			return least
		}
	}
}
