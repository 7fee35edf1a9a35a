package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of a released program, set by the linker.
var release = "dev"

func version() string { return release }

func versionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the libraries it was built with",
		RunE: func(*cobra.Command, []string) error {
			said := fmt.Sprintf("outlierd %s · %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			libraries := map[string]string{}
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			for _, dep := range info.Deps {
				switch dep.Path {
				case "github.com/duckdb/duckdb-go/v2", "github.com/apache/arrow-go/v18", "modernc.org/sqlite":
					said += fmt.Sprintf("  %s %s\n", dep.Path, dep.Version)
					libraries[dep.Path] = dep.Version
				}
			}
			return g.out.print(versions{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, libraries}, "%s", said)
		},
	}
}

// versions is the output of version for programs.
type versions struct {
	Version   string            `json:"version"`
	Go        string            `json:"go"`
	Platform  string            `json:"platform"`
	Libraries map[string]string `json:"libraries"`
}
