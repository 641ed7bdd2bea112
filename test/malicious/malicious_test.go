package malicious

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor/attack"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// row is one thing that a step tries.
type row struct {
	act     string
	tries   string
	code    verdict.Code // of the refusal; none if the build goes on unharmed
	says    string       // in the verdict
	limits  string
	network string
	// bare is what the same step meets without walls: worked, if it did harm;
	// otherwise a code. Rows that would harm this machine are not run bare.
	bare     verdict.Code
	socket   string
	abstract string
	more     string // lines of the step in release.yaml
	// A second step that the row needs, and what it may have released.
	second string
	keeps  []string
}

// What a row without walls may come to besides a refusal.
const (
	worked verdict.Code = "WORKED"
	notRun verdict.Code = ""
)

const failed = verdict.StepFailed

// rows is the table: each act, with its expected results. The rows of waybill
// doctor --attack-builder describe in their own table what they try.
func rows() []row {
	all := []row{
		{act: "read-token", code: failed, says: "no such file", bare: worked},
		{act: "print-token", tries: "prints the builder's token into the log", code: failed, says: "no such file", bare: worked},
		{act: "read-home", code: failed, says: "no such file", bare: worked},
		{act: "read-release", code: failed, says: "no such file", bare: worked},
		{act: "read-repository", code: failed, says: "no such file", bare: worked},
		{act: "read-log", code: failed, says: "no such file", bare: worked},
		{act: "forge-log", code: failed, says: "no such file", bare: worked},
		{act: "read-environment", code: failed, says: "no such file", bare: worked},
		{act: "read-memory", tries: "reads the memory of the control plane, and traces it", code: failed, says: "operation not permitted"},
		{act: "read-descriptors", code: failed, says: "no such file", bare: worked},
		{act: "read-runner", tries: "looks into the runner", code: failed, says: "stopped:"},
		{act: "signal", code: failed, says: "no such process", bare: worked},
		{act: "through-proc", code: failed, says: "stopped:"},
		{act: "dial-signer", code: failed, says: "network is unreachable", bare: worked},
		{act: "dial-log", code: failed, says: "network is unreachable", bare: worked},
		{act: "dial-socket", code: failed, says: "no such file", bare: worked},
		{act: "dial-abstract", code: failed, says: "connection refused", bare: worked},
		{act: "dial-metadata", tries: "asks the cloud's metadata for credentials", code: failed, says: "network is unreachable"},
		{act: "dial-world", tries: "reaches the network without declaring it", code: failed, says: "network is unreachable"},
		{act: "use-proxy", code: failed, says: "403 Forbidden", network: "[declared.example.test]"},
		{act: "around-proxy", tries: "reaches the network past its proxy", code: failed, says: "network is unreachable", network: "[declared.example.test]"},
		{act: "forge-provenance", tries: "writes provenance among its outputs", code: "OUTPUT_EXTRA", says: "did not declare this output", bare: "OUTPUT_EXTRA"},
		{act: "forge-beside", code: failed, says: "no such file", bare: worked},
		{act: "outlive"},
		{act: "alter-output", code: failed, says: "no such file", bare: worked},
		{act: "alter-input", code: failed, says: "read-only file system", bare: worked},
		{act: "alter-tools", code: failed, says: "permission denied"},
		{act: "poison-cache", code: failed, says: "no such file", bare: worked},
		{
			act: "find-poison", tries: "takes from a cache what an earlier step has put there", code: failed, says: "no such file", bare: worked,
			second: peer("poison", ""), keeps: []string{"peer.txt", "provenance/peer.sigstore.json"},
		},
		{act: "meet", tries: "meets a step that runs at the same time", code: failed, says: "met nobody", bare: worked, second: peer("meet", "OTHER: evil")},
		{act: "write-anywhere", code: failed, says: "no directory of others takes a file"},
		{act: "leave-symlink", tries: "leaves a symbolic link", code: verdict.FileType, says: "a symbolic link", bare: verdict.FileType},
		{act: "leave-hardlink", tries: "leaves a file of two names", code: verdict.FileType, says: "2 hard links", bare: verdict.FileType},
		{act: "leave-fifo", tries: "leaves a pipe, which blocks who reads it", code: verdict.FileType, says: "a pipe", bare: verdict.FileType},
		{act: "leave-socket", tries: "leaves a socket", code: verdict.FileType, says: "a socket", bare: verdict.FileType},
		{act: "leave-device", tries: "leaves a device", code: failed, says: "operation not permitted"},
		{act: "leave-directory", tries: "leaves a directory under the name of its output", code: "OUTPUT_MISSING", says: "did not write it", bare: "OUTPUT_MISSING"},
		{act: "leave-backslash", tries: "leaves a name that climbs on other systems", code: verdict.Path, says: "separator of another system", bare: verdict.Path},
		{act: "leave-escape", tries: "leaves a name that a terminal obeys", code: verdict.Path, says: "cannot be seen", bare: verdict.Path},
		{act: "leave-flag", tries: "leaves a name that programs take for a flag", code: verdict.Path, says: "looks like a flag", bare: verdict.Path},
		{act: "leave-setuid", tries: "leaves a program that runs as whoever owns it", bare: worked},
		{act: "bury-home", tries: "leaves directories deeper than any path", bare: worked},
		{act: "bury-out", tries: "leaves these among its outputs", code: "OUTPUT_EXTRA", says: "did not declare this output", bare: "OUTPUT_EXTRA"},
		{act: "leave-more", tries: "leaves more than it declared", code: "OUTPUT_EXTRA", says: "did not declare this output", bare: "OUTPUT_EXTRA"},
		{act: "leave-sparse", tries: "leaves a gigabyte of nothing", code: verdict.OutputSize, says: "sparse", bare: verdict.OutputSize},
		{act: "leave-locked", tries: "leaves a directory that nobody may read", bare: notRun},
		{act: "fork-bomb", code: verdict.StepLimit, says: "limit of processes", limits: "{processes: 64}"},
		{act: "fill-disk", code: verdict.StepLimit, says: "limit of disk", limits: "{disk: 64Mi}"},
		{act: "hide-on-disk", tries: "fills the disk with files that it removes and keeps open", code: verdict.StepLimit, says: "limit of disk", limits: "{disk: 64Mi}"},
		{act: "hide-a-little", tries: "keeps as many bytes as it may in files that it removed", limits: "{disk: 64Mi}", bare: worked},
		{act: "eat-memory", code: verdict.StepLimit, says: "limit of memory", limits: "{memory: 128Mi}"},
		{act: "sleep", tries: "never ends", code: verdict.StepLimit, says: "limit of time", limits: "{time: 1s}", bare: verdict.StepLimit},
		{act: "write-escapes", tries: "sends escape sequences to who reads the log", code: failed, says: `\x1b]0;owned\x07\x1b[2J`, bare: failed},
		{act: "hide-lines", tries: "hides lines of its log as those of a private key", code: failed, says: "fetching what nobody shall read of", bare: failed},
		{act: "call-kernel", tries: "makes system calls that no build makes", code: failed, says: "io_uring_setup: operation not permitted"},
		{act: "gain-privileges", tries: "becomes root through set-user-ID programs", code: failed, says: "operation not permitted"},
		{act: "new-namespaces", code: failed, says: "operation not permitted"},
		{act: "fail", tries: "fails", code: failed, says: "of its own will", bare: failed},
	}
	for _, r := range attack.Rows() {
		i := slices.IndexFunc(all, func(known row) bool { return known.act == r.Act })
		all[i].tries = r.Tries // a row of the product that is not in this table is a panic
	}
	return all
}

// peer is a second step. Without another to meet it comes first.
func peer(act, more string) string {
	return fmt.Sprintf("- name: peer\n  run: [./step]\n  env: {ACT: %s, ME: peer, OUTPUT: peer.txt, COMMON, %s}\n  outputs: [{class: file, name: peer.txt}]\n", act, more)
}

// fit is the row as this machine can hold it: where no control group is to be
// had, the kernel stops single processes, and nobody counts it.
func (r row) fit(report sandbox.Report) row {
	if r.act == "leave-locked" && os.Geteuid() != 0 {
		r.code, r.says = verdict.FileType, "unreadable" // only root reads what is closed to it
	}
	if r.code != verdict.StepLimit || r.act == "sleep" || strings.Contains(r.says, "disk") {
		return r
	}
	if !report.Has(sandbox.MemoryLimited) {
		r.code, r.says = failed, map[string]string{"fork-bomb": "stopped: after", "eat-memory": "memory"}[r.act]
	}
	return r
}

// TestMaliciousSteps: behind walls, each act is stopped, the verdict names it,
// and nothing was signed for or released.
func TestMaliciousSteps(t *testing.T) {
	w := openWorld(t)
	mode := w.walls(t)
	t.Logf("had: %v; %v", w.report.Had, w.report.How)
	for _, line := range w.report.Loud() {
		t.Log(line)
	}
	var table strings.Builder
	for _, r := range rows() {
		t.Run(r.act, func(t *testing.T) {
			r := r.fit(w.report)
			hosts(t, &r)
			b := w.prepare(t, mode, r)
			err := w.build(t, b)
			fmt.Fprintf(&table, "%-18s %-52s %-15s %s\n", r.act, r.tries, codeOf(err), firstLine(err, r.says))
			if r.code == "" {
				harmless(t, w, b, err)
				return
			}
			if codeOf(err) != r.code || !strings.Contains(err.Error(), r.says) {
				t.Fatalf("%s %v, want %s with %q\n%s", codeOf(err), err, r.code, r.says, b.log(t))
			}
			if names := b.released(t); !slices.Equal(names, r.keeps) {
				t.Errorf("released all the same: %v", names)
			}
			clean(t, b, err)
		})
	}
	t.Logf("\n%s", table.String())
}

// TestLongWithoutWalls: the same steps as ordinary processes. What works here is
// exactly what the unisolated builder does not guarantee; whatever was built
// says so.
func TestLongWithoutWalls(t *testing.T) {
	w := openWorld(t)
	for _, r := range rows() {
		if r.bare == notRun {
			continue
		}
		t.Run(r.act, func(t *testing.T) {
			hosts(t, &r)
			b := w.prepare(t, sandbox.Unisolated, r)
			err := w.build(t, b)
			switch {
			case r.bare != worked:
				if codeOf(err) != r.bare {
					t.Fatalf("%s %v, want %s", codeOf(err), err, r.bare)
				}
				if names := b.released(t); len(names) > 0 {
					t.Errorf("released all the same: %v", names)
				}
			case err != nil:
				t.Fatalf("without walls this works, and the builder's page says so: %v", err)
			default:
				says(t, w, b, provenance.BuilderUnisolated)
			}
			clean(t, b, err)
		})
	}
}

// TestNothing: the twin of all: a step that only writes its output is built.
func TestNothing(t *testing.T) {
	w := openWorld(t)
	for _, mode := range []sandbox.Mode{w.report.Mode, sandbox.Unisolated} {
		b := w.prepare(t, mode, row{act: "nothing"})
		noErr(t, w.build(t, b))
		says(t, w, b, map[bool]string{true: provenance.BuilderIsolated, false: provenance.BuilderUnisolated}[mode == sandbox.Isolated])
	}
}

// harmless: the build went on, and what it released is what it signed for.
func harmless(t *testing.T, w *world, b *release, err error) {
	t.Helper()
	noErr(t, err)
	says(t, w, b, map[bool]string{true: provenance.BuilderIsolated, false: provenance.BuilderUnisolated}[b.mode == sandbox.Isolated])
}

// says: the released file is the one of the provenance, and that names the
// builder.
func says(t *testing.T, w *world, b *release, builder string) {
	t.Helper()
	files := filepath.Join(b.state, "files")
	raw := must(os.ReadFile(filepath.Join(files, "provenance", "evil.sigstore.json")))(t)
	e := must(w.verifier.Attestation(raw))(t)
	if body := must(os.ReadFile(filepath.Join(files, "lantern.txt")))(t); !e.Covers("lantern.txt", digest.SetOf(body)) {
		t.Error("the released file is not the one that was signed for")
	}
	if mode := must(os.Lstat(filepath.Join(files, "lantern.txt")))(t).Mode(); mode&^0o022 != 0o644 {
		t.Errorf("the released file has the mode %v", mode)
	}
	said := must(provenance.Parse(e.Statement()))(t)
	if said.RunDetails.Builder.ID != builder {
		t.Errorf("the provenance names %q, want %q", said.RunDetails.Builder.ID, builder)
	}
	if got := said.BuildDefinition.InternalParameters.Isolation; got != string(b.mode) {
		t.Errorf("the provenance says %q of a step that ran %q", got, b.mode)
	}
}

// clean: neither log nor verdict moves a cursor or holds the token.
func clean(t *testing.T, b *release, err error) {
	t.Helper()
	token := string(must(os.ReadFile(b.token))(t))
	for _, text := range []string{b.log(t), fmt.Sprint(err)} {
		if strings.ContainsAny(text, "\x1b\a\u009b") || !utf8.ValidString(text) || strings.Contains(text, "\u202e") {
			t.Errorf("escape sequences got through: %q", text)
		}
		if strings.Contains(text, token) {
			t.Error("the token is in the log or the verdict")
		}
	}
}

// hosts opens the sockets that a row would reach.
func hosts(t *testing.T, r *row) {
	t.Helper()
	if r.act != "dial-socket" && r.act != "dial-abstract" {
		return
	}
	r.socket = filepath.Join(t.TempDir(), "s")
	r.abstract = "@" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(os.Getpid())
	for _, name := range []string{r.socket, r.abstract} {
		l := must(net.Listen("unix", name))(t)
		t.Cleanup(func() { l.Close() })
	}
}

func codeOf(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// firstLine is the line of an error that has the text.
func firstLine(err error, text string) string {
	if err == nil {
		return "built, and the released file is the one that was signed for"
	}
	for line := range strings.Lines(err.Error()) {
		if strings.Contains(line, text) {
			return strings.TrimSpace(line[:min(len(line), 140)])
		}
	}
	return ""
}

// TestRowsAreWhole: every act of the step stands in the table.
func TestRowsAreWhole(t *testing.T) {
	raw := append(must(os.ReadFile(filepath.Join("step", "main.go")))(t), must(os.ReadFile(filepath.Join("step", "unrecorded.go")))(t)...)
	_, list, _ := strings.Cut(string(raw), "return map[string]func() error{")
	var acts []string
	for line := range strings.Lines(list) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), `":`); ok && strings.HasPrefix(name, `"`) {
			acts = append(acts, name[1:])
		}
	}
	for _, r := range append(rows(), inputRows()...) { // nothing is the twin of both tables
		acts = slices.DeleteFunc(acts, func(a string) bool { return a == r.act })
	}
	if !slices.Equal(acts, []string{"poison"}) { // which no row is about
		t.Errorf("acts without a row: %v", acts)
	}
}
