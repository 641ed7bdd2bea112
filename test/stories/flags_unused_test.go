package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// helpedFlag is a flag as help lists it: its name, and the type of its value.
var helpedFlag = regexp.MustCompile(`(?m)^ +(?:-[a-z], +)?--([a-z-]+)(?: ([a-zA-Z]+))? `)

// useful are flags of the program itself, and those that say how an answer is
// printed: they never change what is asked.
var useful = []string{"help", "version", "log-format", "output", "verbose", "quiet", "color", "metrics-file", "feature-gates", "confirm"}

// way is one way to ask a command, with the flags that are used on it. Every
// other flag of its help must be wrong use there.
type way struct {
	name string
	line string // what is typed; NAMES in capitals stand for what the scene has
	uses string
}

func ways() []way {
	const judging = "profile exception accept-defect known-defects source-vsa declaration "
	const reading = judging + "digests source files images listing place depth accept-vsa offline now state cache min-root only platform require-level report print-sums download kit "
	return []way{
		{"a version", "k8s-verify-release VERSION --profile profile.yaml", strings.NewReplacer("cache ", "", "min-root ", "").Replace(reading)},
		{"files", "k8s-verify-release VERSION --profile profile.yaml FILE", strings.NewReplacer("images ", "", "listing ", "", "download ", "", "cache ", "", "min-root ", "").Replace(reading)},
		{"only files", "k8s-verify-release VERSION --profile profile.yaml --only files", strings.NewReplacer("images ", "", "cache ", "", "min-root ", "").Replace(reading)},
		{"only images", "k8s-verify-release VERSION --profile profile.yaml --only images", strings.NewReplacer("digests ", "", "listing ", "", "download ", "", "print-sums ", "", "cache ", "", "min-root ", "").Replace(reading)},
		{"a version, by waybill", "waybill verify release VERSION --profile profile.yaml", "features report-as " + strings.NewReplacer("cache ", "", "min-root ", "").Replace(reading)},
		{"a version without a manifest", "waybill verify release v1.31.0 --profile kubernetes --offline", strings.NewReplacer("accept-vsa ", "", "state ", "", "source-vsa ", "", "declaration ", "", "digests ", "", "source ", "", "depth ", "", "require-level ", "", "cache ", "", "min-root ", "").Replace(reading) + "rekor-url evidence expected"},
		{"a staged version", "waybill gate check VERSION --profile profile.yaml", "features report-as " + judging + "source files images listing place depth accept-vsa offline now report kit"},
		{"an image", "waybill gate check IMAGE --policy policy.yaml --trusted-root trusted_root.json", "policy stage release-version commit trusted-root accept-vsa source-vsa declaration offline now cache rekor-url evidence features report-as report"},
		{"a promoter's manifest", "waybill gate check MANIFEST --trusted-root trusted_root.json", "policy trusted-root offline now cache rekor-url evidence features report-as"},
		{"an image, of a service", "waybill gate check IMAGE --server http://127.0.0.1:1", "server to channel summary audience identity identity-token timeout client-certificate client-key release-version exception"},
		{"a release", "waybill release VERSION --profile profile.yaml --state state", judging + "features report-as lease state parameter patience identity identity-token key key-password"},
		{"to staging", "waybill promote VERSION --to staging --profile profile.yaml --state state", "to profile state"},
		{"to the release place", "waybill promote VERSION --to release --profile profile.yaml --state state", judging + "features report-as to state"},
		{"a plan to staging", "waybill promote plan VERSION --to staging --profile profile.yaml --state state", "to profile state diff"},
		{"a plan to the release place", "waybill promote plan VERSION --to release --profile profile.yaml --state state", judging + "features report-as to state diff"},
		{"a plan of images", "waybill promote plan MANIFEST", "policy profile keep-going"},
		{"a plan of files", "waybill promote plan FILES", "diff profile keep-going"},
		{"applying a plan to the release place", "waybill promote apply release-plan.json --profile profile.yaml", judging + "features report-as state"},
		{"applying a plan to staging", "waybill promote apply staging-plan.json --profile profile.yaml --state state", "profile state"},
		{"applying a plan of images", "waybill promote apply image-plan.json --profile profile.yaml", judging + "features report-as state patience identity identity-token key key-password shard results lease"},
		{"applying a plan of files", "waybill promote apply file-plan.json --profile profile.yaml", "profile state accept-defect known-defects source-vsa declaration features report-as"},
	}
}

// TestFlagsWithoutAUse gives every command that decides each of its flags: one
// that is not used for what is asked about is wrong use, and none is ignored.
func TestFlagsWithoutAUse(t *testing.T) {
	m := mirror{Scene: open(t), t: t}
	want(t, m.Stage(t.Context()), 0)
	names := m.askable()
	n := 0
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			line := strings.Fields(names.Replace(w.line))
			helped := append(slices.Clone(line[:slices.IndexFunc(line, func(word string) bool { return !commandWord.MatchString(word) })]), "--help")
			help := m.Run(t.Context(), helped...)
			uses := append(strings.Fields(w.uses), useful...)
			for _, found := range helpedFlag.FindAllStringSubmatch(help.Stdout, -1) {
				name, kind := found[1], found[2]
				if i := slices.Index(uses, name); i >= 0 {
					continue
				}
				n++
				given := append(slices.Clone(line), "--"+name)
				switch kind {
				case "":
				case "int":
					given = append(given, "1")
				case "duration":
					given = append(given, "1m")
				default:
					given = append(given, valueOf(name))
				}
				r := m.Run(t.Context(), given...)
				if r.Code != 2 || !strings.Contains(r.Stderr+r.Stdout, "--"+name) {
					t.Errorf("%s\nended with status %d, want wrong use of --%s:\n%s%s", r, r.Code, name, r.Stdout, r.Stderr)
				}
			}
			for _, name := range strings.Fields(w.uses) {
				if !strings.Contains(help.Stdout, "--"+name) {
					t.Errorf("%s has no --%s", strings.Join(helped, " "), name)
				}
			}
		})
	}
	t.Logf("%d flags on %d ways are wrong use", n, len(ways()))
}

// commandWord is a word of a command's name.
var commandWord = regexp.MustCompile(`^(k8s-verify-release|waybill|verify|release|gate|check|promote|plan|apply)$`)

// valueOf is a value that the flag takes.
func valueOf(name string) string {
	switch name {
	case "stage", "to":
		return "staging"
	case "class":
		return "binary"
	case "digests":
		return "sha256"
	case "shard":
		return "0/2"
	}
	return "x"
}

// askable writes what is asked about into the scene, and says what it is called.
func (m mirror) askable() *strings.Replacer {
	m.t.Helper()
	m.write("by-hand", "a file")
	m.write("promoter.yaml", fmt.Sprintf("registries:\n- {name: %[1]s/staging/lantern, src: true}\n- {name: %[1]s/mirror}\nimages:\n- name: lantern\n  dmap:\n    \"sha256:%[2]s\": [v0.1.0]\n", m.Lab.Registry, strings.Repeat("0", 64)))
	m.write("files.yaml", fmt.Sprintf("filestores:\n- {base: \"file://%[1]s/from\", src: true}\n- {base: \"file://%[1]s/to\"}\nfiles:\n- {name: lantern, sha256: %[2]s}\n", m.Dir, strings.Repeat("0", 64)))
	if err := os.MkdirAll(filepath.Join(m.Dir, "from"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"release-plan.json": {scene.Version, "--to", "release", "--profile", "profile.yaml", "--state", "state"},
		"staging-plan.json": {scene.Version, "--to", "staging", "--profile", "profile.yaml", "--state", "state"},
		"image-plan.json":   {"promoter.yaml"}, "file-plan.json": {"files.yaml"},
	} {
		r := m.Run(m.t.Context(), append(append([]string{"waybill", "promote", "plan"}, args...), "--output", "json")...)
		want(m.t, r, 0)
		m.write(name, r.Stdout)
	}
	return strings.NewReplacer("VERSION", scene.Version, "FILES", "files.yaml", "FILE", "by-hand", "MANIFEST", "promoter.yaml",
		"IMAGE", m.Lab.Registry+"/staging/lantern/lantern:"+scene.Version)
}
