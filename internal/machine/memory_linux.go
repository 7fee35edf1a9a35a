package machine

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// assumedMemory is the assumed memory of a machine that does not report it, in bytes.
const assumedMemory = 2 << 30

// Memory returns the memory that this process may use, in bytes: the machine's, or a lower limit of the
// container or of a control group above it.
func Memory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return limitMemory(os.DirFS("/"), assumedMemory)
	}
	return limitMemory(os.DirFS("/"), int64(info.Totalram)*int64(info.Unit))
}

// limitMemory returns the memory of a machine, or what the files in root allow of it.
func limitMemory(root fs.FS, least int64) int64 {
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

// AddressSpace returns how much this process may reserve, in bytes.
func AddressSpace() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of the address space: %w", err)
	}
	return limit.Cur, nil
}
