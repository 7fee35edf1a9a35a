package machine

import (
	"testing"
	"testing/fstest"
)

// The available memory is the least of the machine and its control groups.
func TestMemoryRespectsControlGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // MB
	}{
		"a machine": {map[string]string{"proc/self/cgroup": "0::/\n"}, 16384},
		"a container": {map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "536870912\n"}, 512},
		"a group without a limit below one with": {map[string]string{"proc/self/cgroup": "0::/system.slice/outlierd.service\n",
			"sys/fs/cgroup/system.slice/outlierd.service/memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "268435456\n"}, 256},
		"the host's path in a container": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1\n",
			"sys/fs/cgroup/memory.max": "268435456\n"}, 256},
		"both versions": {map[string]string{"proc/self/cgroup": "4:cpu,memory:/docker/1\n3:memoryless:/x\n0::/\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "134217728\n", "sys/fs/cgroup/unified/memory.max": "268435456\n"}, 128},
		"no limit in version 1": {map[string]string{"proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16384},
		"nonsense": {map[string]string{"proc/self/cgroup": "nonsense\n\n0::/\n", "sys/fs/cgroup/memory.max": "-3\n"}, 16384},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := limitMemory(root, 16<<30) >> 20; got != c.want {
				t.Errorf("%d MB, want %d", got, c.want)
			}
		})
	}
}
