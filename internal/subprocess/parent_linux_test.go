package subprocess_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"outlierd/internal/subprocess"
)

// TestProgramsEndWithKilledParent: the parent is this test as another process. Its output ends when the program ends.
func TestProgramsEndWithKilledParent(t *testing.T) {
	const variable = "OUTLIERD_TEST_PARENT"
	if os.Getenv(variable) != "" {
		err := subprocess.Run(t.Context(), time.Minute, []string{"sh", "-c", "echo started; exec sleep 60"}, func(c *exec.Cmd) { c.Stdout = os.Stdout })
		t.Fatalf("the program ended before its parent: %v", err)
	}
	output, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgramsEndWithKilledParent$")
	parent.Env, parent.Stdout = append(os.Environ(), variable+"=1"), write
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	if err := output.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(lines); err != nil {
		t.Errorf("the program runs on without its parent: %v", err)
	}
}
