package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"outlierd/sinks/warehouse"
	"outlierd/sync/job"
)

// The files for deployment name commands, variables and paths of the program. These tests compare them with the
// program, because no other test runs them.

// imageUser is the user of the image, who must have access to everything that is mounted.
const imageUser = 65532

// stopWithin is how long a stop of `up` may take, see docs/operating.md. A service manager has to wait longer.
const stopWithin = 25 * time.Second

// deployment is a container or service that a file declares.
type deployment struct {
	user    string
	args    []string   // without the name of the program
	checks  [][]string // commands of health checks, likewise
	env     map[string]string
	mounts  map[string]string // mount point → folder of the repository, "" for another one
	secrets []string          // files that the deployment provides
	ports   []string          // of Compose as they are published; of Kubernetes "NAME PORT"
	grace   time.Duration
	reaped  bool // whether process 1 is one that reaps what others leave
}

func TestDeploymentsAgreeWithTheProgram(t *testing.T) {
	t.Parallel()
	image := dockerfile(t)
	for name, d := range map[string]deployment{
		"Dockerfile":                image.deployment,
		"compose.yaml":              compose(t),
		"deploy/kubernetes/daemon":  kubernetes(t, "deploy/kubernetes/daemon/deployment.yaml", "spec.template.spec"),
		"deploy/kubernetes/cronjob": kubernetes(t, "deploy/kubernetes/cronjob/cronjob.yaml", "spec.jobTemplate.spec.template.spec"),
		"deploy/systemd":            systemdUnit(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range append(d.checks, d.args) {
				if err := accepts(args); err != nil {
					t.Errorf("outlierd %s: %v", strings.Join(args, " "), err)
				}
			}
			if d.user != "" && !strings.HasPrefix(d.user, fmt.Sprint(imageUser)) {
				t.Errorf("it runs as user %s, want %d as the image", d.user, imageUser)
			}
			if d.grace != 0 && d.grace <= stopWithin {
				t.Errorf("it is killed after %v, want more than the %v that a stop may take", d.grace, stopWithin)
			}
			for _, variable := range []string{"OUTLIERD_CONFIG", "OUTLIERD_DATA"} {
				value, set := d.env[variable]
				value, _, _ = strings.Cut(value, "${")
				if set && !slices.ContainsFunc(keys(d.mounts), func(at string) bool { return within(at, value) }) {
					t.Errorf("%s is %s, want a path below a mount point", variable, value)
				}
			}
			d.checkJobs(t)
		})
	}
}

// TestLastingContainersReapWhatCommandsLeave: a command of `notify` may leave programs running. The program as process
// 1 would not reap them.
func TestLastingContainersReapWhatCommandsLeave(t *testing.T) {
	t.Parallel()
	if !compose(t).reaped {
		t.Error("compose.yaml does not set init")
	}
	if !kubernetes(t, "deploy/kubernetes/daemon/deployment.yaml", "spec.template.spec").reaped {
		t.Error("deploy/kubernetes/daemon does not set shareProcessNamespace")
	}
}

// TestContainerPageIsReachable with a token, through the port that is published, for the host alone, or that
// the Service leads to; without one the daemon listens on the container's loopback address.
func TestContainerPageIsReachable(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	listens := func(d deployment, token string) job.Daemon {
		t.Helper()
		config, err := job.Load(filepath.Join("../../..", d.mounts["/etc/outlierd"], "jobs.yaml"), func(name string) (string, bool) {
			value, is := d.env[name]
			switch choice := regexp.MustCompile(`^\$\{OUTLIERD_TOKEN:\+(.*)\}$`).FindStringSubmatch(value); {
			case name == "OUTLIERD_TOKEN":
				return token, is
			case choice != nil && token != "": // as Compose fills it in
				return choice[1], true
			case name == "OUTLIERD_LISTEN" && choice == nil:
				return value, is
			}
			return "", false
		})
		if err != nil {
			t.Fatal(err)
		}
		return config.Daemon
	}
	if d := listens(compose(t), ""); !d.Private() || d.Listen == "" {
		t.Errorf("compose.yaml without a token listens at %q, want a loopback address", d.Listen)
	}
	pod := kubernetes(t, "deploy/kubernetes/daemon/deployment.yaml", "spec.template.spec")
	for name, d := range map[string]deployment{"compose.yaml": compose(t), "deploy/kubernetes/daemon": pod} {
		daemon := listens(d, token)
		host, port, err := net.SplitHostPort(daemon.Listen)
		if err != nil || host != "0.0.0.0" || daemon.Token.Reveal() != token {
			t.Errorf("%s: with a token it listens at %q, want all addresses and that token", name, daemon.Listen)
		}
		if want := map[string]string{"compose.yaml": "127.0.0.1:" + port + ":" + port}[name]; want != "" && !slices.Equal(d.ports, []string{want}) {
			t.Errorf("%s publishes %v, want %s alone", name, d.ports, want)
		} else if want == "" && !slices.Equal(d.ports, []string{"http " + port}) {
			t.Errorf("%s has the ports %v, want http %s", name, d.ports, port)
		}
	}
	var service struct {
		Spec struct {
			Selector map[string]string
			Ports    []struct {
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	unmarshal(t, "deploy/kubernetes/daemon/service.yaml", &service)
	var deployed struct {
		Spec struct {
			Template struct {
				Metadata struct{ Labels map[string]string }
			}
		}
	}
	unmarshal(t, "deploy/kubernetes/daemon/deployment.yaml", &deployed)
	if s := service.Spec; !maps.Equal(s.Selector, deployed.Spec.Template.Metadata.Labels) || len(s.Ports) != 1 ||
		"http "+fmt.Sprint(s.Ports[0].Port) != pod.ports[0] || s.Ports[0].TargetPort != "http" {
		t.Errorf("the Service leads from %+v to pods with %v, want the port http of the Deployment", s.Ports, s.Selector)
	}
	for _, line := range []string{"docker compose exec outlierd outlierd open", "kubectl port-forward service/outlierd " + fmt.Sprint(service.Spec.Ports[0].Port)} {
		if !bytes.Contains(repositoryFile(t, "docs/operating.md"), []byte(line)) {
			t.Errorf("docs/operating.md does not show %q", line)
		}
	}
}

// checkJobs loads the job file of the deployment as in the deployment, for the simulator and for a service.
func (d deployment) checkJobs(t *testing.T) {
	at := d.env["OUTLIERD_CONFIG"]
	for mount, source := range d.mounts {
		if source == "" || !within(mount, at) {
			continue
		}
		text := repositoryFile(t, path.Join(source, strings.TrimPrefix(at, mount)))
		named := map[string]bool{}
		for _, name := range regexp.MustCompile(`\$\{(OUTLIERD_\w+)`).FindAllSubmatch(text, -1) {
			named[string(name[1])] = true
		}
		for name := range d.env {
			if strings.HasPrefix(name, "OUTLIERD_") && !named[name] &&
				!slices.Contains([]string{"OUTLIERD_CONFIG", "OUTLIERD_DATA", warehouse.MemoryVariable}, name) {
				t.Errorf("neither the program nor the job file uses the variable %s", name)
			}
		}
		secret := filepath.Join(t.TempDir(), "key")
		for _, file := range d.secrets {
			text = bytes.ReplaceAll(text, []byte("${file:"+file), []byte("${file:"+secret))
		}
		jobs := filepath.Join(t.TempDir(), "jobs.yaml")
		if err := os.WriteFile(jobs, text, 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := job.Load(jobs, func(string) (string, bool) { return "", false })
		if err != nil || !config.Service.Simulated() {
			t.Errorf("without variables: %v; want the simulator", err)
		}
		if err := os.WriteFile(secret, []byte("canary\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err = job.Load(jobs, func(name string) (string, bool) {
			return "https://api.example.com", name == "OUTLIERD_URL"
		})
		if err != nil || config.Service.Simulated() || config.Service.Key.Fingerprint() == "" {
			t.Errorf("with a key and an address: %v; want that service", err)
		}
		return
	}
}

// accepts parses arguments as the program does, without running the command.
func accepts(args []string) error {
	root := newCommand(newGlobals(world{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: os.LookupEnv}))
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if command == root {
		return errors.New("there is no such command")
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

// TestContainerJobFilesAreEqual: there are two files because Kustomize reads none outside of its folder.
func TestContainerJobFilesAreEqual(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(repositoryFile(t, "deploy/config/jobs.yaml"), repositoryFile(t, "deploy/kubernetes/base/jobs.yaml")) {
		t.Error("deploy/config/jobs.yaml and deploy/kubernetes/base/jobs.yaml differ")
	}
}

// TestKustomizationsNameFilesThatExist, and each Kubernetes file belongs to one.
func TestKustomizationsNameFilesThatExist(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"base", "daemon", "cronjob"} {
		folder = "deploy/kubernetes/" + folder
		var k struct {
			Resources          []string
			ConfigMapGenerator []struct{ Files []string } `yaml:"configMapGenerator"`
		}
		unmarshal(t, folder+"/kustomization.yaml", &k)
		named := append(k.Resources, "kustomization.yaml")
		for _, generator := range k.ConfigMapGenerator {
			named = append(named, generator.Files...)
		}
		for _, name := range named {
			if _, err := os.Stat(filepath.Join("../../..", folder, name)); err != nil {
				t.Errorf("%s/kustomization.yaml: %v", folder, err)
			}
		}
		files, err := os.ReadDir(filepath.Join("../../..", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !slices.Contains(named, file.Name()) {
				t.Errorf("%s/kustomization.yaml does not name %s", folder, file.Name())
			}
		}
	}
}

// TestImageBuildsMatchDockerfile: arguments that it does not declare would be ignored without an error. Actions
// are pinned to a commit, because a tag can be moved.
func TestImageBuildsMatchDockerfile(t *testing.T) {
	t.Parallel()
	declared := dockerfile(t).args
	for _, name := range []string{".ci/image", ".github/workflows/image.yml"} {
		passed := regexp.MustCompile(`--build-arg (\w+)=`).FindAllStringSubmatch(string(repositoryFile(t, name)), -1)
		if len(passed) == 0 {
			t.Errorf("%s passes no argument", name)
		}
		for _, match := range passed {
			if !slices.Contains(declared, match[1]) {
				t.Errorf("%s passes %s, which the Dockerfile does not declare", name, match[1])
			}
		}
	}
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Uses string } }
	}
	unmarshal(t, ".github/workflows/image.yml", &workflow)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	for name, j := range workflow.Jobs {
		for _, step := range j.Steps {
			if step.Uses != "" && !pinned.MatchString(step.Uses) {
				t.Errorf("job %s uses %s, which is not pinned to a commit", name, step.Uses)
			}
		}
	}
}

type image struct {
	deployment
	args []string // that a build may pass
}

// dockerfile reads the Dockerfile. The instructions of the last stage replace those of earlier ones.
func dockerfile(t *testing.T) (i image) {
	i.env, i.mounts = map[string]string{}, map[string]string{}
	text := strings.ReplaceAll(string(repositoryFile(t, "Dockerfile")), "\\\n", "")
	var entrypoint, command []string
	for line := range strings.Lines(text) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "ARG":
			name, _, _ := strings.Cut(rest, "=")
			i.args = append(i.args, name)
		case "USER":
			i.user = rest
		case "VOLUME":
			i.mounts[rest] = ""
		case "ENV":
			name, value, _ := strings.Cut(rest, "=")
			i.env[name] = value
		case "HEALTHCHECK":
			_, check, _ := strings.Cut(rest, "CMD ")
			i.checks = append(i.checks, ours(t, words(t, check)))
		case "ENTRYPOINT":
			entrypoint = words(t, rest)
		case "CMD":
			command = words(t, rest)
		}
	}
	i.deployment.args = ours(t, append(entrypoint, command...))
	return i
}

// compose reads the service of the Compose file.
func compose(t *testing.T) deployment {
	var file struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Volumes     []string
			Ports       []string
			User        string
			Init        bool
			Grace       string `yaml:"stop_grace_period"`
			Healthcheck struct{ Test []string }
		}
	}
	unmarshal(t, "compose.yaml", &file)
	s := file.Services["outlierd"]
	d := deployment{
		user: s.User, args: s.Command, env: s.Environment, mounts: map[string]string{}, grace: duration(t, s.Grace),
		reaped: s.Init, ports: s.Ports,
	}
	if len(s.Healthcheck.Test) > 0 {
		d.checks = append(d.checks, ours(t, s.Healthcheck.Test[1:])) // after CMD
	}
	for _, volume := range s.Volumes {
		parts := strings.Split(volume, ":")
		source, isFolder := strings.CutPrefix(parts[0], "./")
		switch {
		case !isFolder:
			source = ""
		case parts[1] == "/run/secrets":
			source, d.secrets = "", []string{"/run/secrets/outlierd_key"}
		}
		d.mounts[parts[1]] = source
	}
	return d
}

// kubernetes reads the first container of a pod.
func kubernetes(t *testing.T, name, pod string) deployment {
	type probe struct{ Exec struct{ Command []string } }
	var spec struct {
		Grace           int  `yaml:"terminationGracePeriodSeconds"`
		Shared          bool `yaml:"shareProcessNamespace"`
		SecurityContext struct {
			RunAsUser int `yaml:"runAsUser"`
		} `yaml:"securityContext"`
		Containers []struct {
			Args         []string
			Env          []struct{ Name, Value string }
			VolumeMounts []struct {
				Name      string
				MountPath string `yaml:"mountPath"`
			} `yaml:"volumeMounts"`
			Ports []struct {
				Name          string
				ContainerPort int `yaml:"containerPort"`
			}
			StartupProbe  *probe `yaml:"startupProbe"`
			LivenessProbe *probe `yaml:"livenessProbe"`
		}
		Volumes []struct {
			Name      string
			ConfigMap *struct{ Name string } `yaml:"configMap"`
			Secret    *struct {
				Items []struct{ Path string }
			}
		}
	}
	var file yaml.Node
	unmarshal(t, name, &file)
	at := file.Content[0]
	for key := range strings.SplitSeq(pod, ".") {
		i := slices.IndexFunc(at.Content, func(n *yaml.Node) bool { return n.Value == key })
		if i < 0 {
			t.Fatalf("%s has no %s of %s", name, key, pod)
		}
		at = at.Content[i+1]
	}
	if err := at.Decode(&spec); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := spec.Containers[0]
	d := deployment{
		user: fmt.Sprint(spec.SecurityContext.RunAsUser), args: c.Args, env: map[string]string{}, mounts: map[string]string{},
		grace: time.Duration(spec.Grace) * time.Second, reaped: spec.Shared,
	}
	for _, variable := range c.Env {
		d.env[variable.Name] = variable.Value
	}
	for _, p := range c.Ports {
		d.ports = append(d.ports, fmt.Sprint(p.Name, " ", p.ContainerPort))
	}
	for _, p := range []*probe{c.StartupProbe, c.LivenessProbe} {
		if p != nil {
			d.checks = append(d.checks, ours(t, p.Exec.Command))
		}
	}
	for _, mount := range c.VolumeMounts {
		d.mounts[mount.MountPath] = ""
		for _, volume := range spec.Volumes {
			switch {
			case volume.Name != mount.Name:
			case volume.ConfigMap != nil:
				d.mounts[mount.MountPath] = "deploy/kubernetes/base"
			case volume.Secret != nil:
				for _, item := range volume.Secret.Items {
					d.secrets = append(d.secrets, path.Join(mount.MountPath, item.Path))
				}
			}
		}
	}
	return d
}

// systemdUnit reads the systemd unit.
func systemdUnit(t *testing.T) deployment {
	d := deployment{env: map[string]string{}, mounts: map[string]string{}}
	for line := range strings.Lines(string(repositoryFile(t, "deploy/systemd/outlierd.service"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStart":
			d.args = ours(t, strings.Fields(value))
		case "Environment":
			name, value, _ := strings.Cut(value, "=")
			d.env[name] = value
		case "StateDirectory":
			d.mounts["/var/lib/"+value] = ""
		case "ConfigurationDirectory":
			d.mounts["/etc/"+value] = ""
		case "TimeoutStopSec":
			d.grace = duration(t, value)
		}
	}
	return d
}

// TestUnitRestartsAfterAPanic: after a panic, and after an abort by the watchdog, Go exits with code 2. So that code
// must not prevent a restart.
func TestUnitRestartsAfterAPanic(t *testing.T) {
	t.Parallel()
	unit := string(repositoryFile(t, "deploy/systemd/outlierd.service"))
	if want := fmt.Sprintf("\nRestartPreventExitStatus=%d %d\n", exitConfig, exitHeld); !strings.Contains(unit, want) {
		t.Errorf("the unit does not have %q", want)
	}
}

// ours returns the arguments of a command line, which must run the program at its path in the image.
func ours(t *testing.T, line []string) []string {
	t.Helper()
	if len(line) < 2 || line[0] != "/usr/local/bin/outlierd" {
		t.Errorf("%q does not run /usr/local/bin/outlierd", line)
		return nil
	}
	return line[1:]
}

// within reports whether a path is the folder or is below it.
func within(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

func keys(m map[string]string) (all []string) {
	for key := range m {
		all = append(all, key)
	}
	return all
}

func words(t *testing.T, text string) (all []string) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func unmarshal(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(repositoryFile(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func repositoryFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
