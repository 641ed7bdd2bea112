package malicious

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// input is something that a step could use without anybody saying so. Either the
// step does not get it, or the provenance says that it could.
type input struct {
	row
	// written checks what the step wrote against the provenance; nil if the
	// input is refused.
	written func(text string, said provenance.Provenance) error
	where   string // in the provenance
	level   int    // that the output reaches, of a builder that is trusted up to 4
}

// scratch is a root with the source and a toolchain, which the lock pins.
const scratch = "  root: scratch\n  tools: [go]\n"

// inputs are the inputs that level 4 of the Build track must not miss. Symbolic
// links and submodules are in the table of repositories.
func inputs() []input {
	refused := func(act, tries, says string) input {
		return input{row: row{act: act, tries: tries, code: failed, says: says, more: scratch}}
	}
	return []input{
		refused("use-toolchain", "downloads a toolchain", "lookup go.dev"),
		refused("use-names", "asks for the addresses of a name", "lookup example.test"),
		refused("use-header", "includes a header of the machine", "no such file"),
		refused("use-outside", "embeds a file beside the source", "no such file"),
		refused("use-path", "follows a path in a variable of its own", "no such file"),
		refused("use-environment", "takes a variable of the account that builds", "no such variable"),
		refused("use-cache", "takes an object from a cache of the machine", "no such file"),
		refused("use-proc", "reads what /proc, /sys and /etc say of the machine", "no such file"),
		{row{act: "use-clock", tries: "writes the time into its output", more: scratch}, between, "`startedOn`, `finishedOn`", 4},
		{row{act: "use-kernel", tries: "writes the kernel's release and the number of processors into its output", more: scratch}, asked, "`walls` / `kernel`, `processors`", 4},
		{row{act: "use-program", tries: "uses a program of the machine that it did not declare"}, machine, "`walls` / `machine`; `hermetic` is false", 3},
		{row{act: "nothing", tries: "has a network, and does not use it", more: scratch, network: "[declared.example.test]"}, network, "`walls` / `network`; `hermetic` is false", 3},
		{row{act: "nothing", tries: "uses nothing: the twin of all others", more: scratch}, nothing, "`hermetic` is true", 4},
	}
}

func inputRows() (all []row) {
	for _, i := range inputs() {
		all = append(all, i.row)
	}
	return all
}

func between(text string, said provenance.Provenance) error {
	at, err := time.Parse(time.RFC3339Nano, text)
	m := said.RunDetails.Metadata
	if err == nil && (at.Before(m.StartedOn.Add(-time.Second)) || at.After(m.FinishedOn.Add(time.Second))) {
		err = fmt.Errorf("%s is not between %s and %s", at, m.StartedOn, m.FinishedOn)
	}
	return err
}

func asked(text string, said provenance.Provenance) error {
	w := said.BuildDefinition.InternalParameters.Walls
	if want := fmt.Sprintf("%s %d", w.Kernel, w.Processors); text != want || w.Processors != runtime.NumCPU() {
		return fmt.Errorf("the step saw %q, the provenance says %q", text, want)
	}
	return nil
}

func machine(_ string, said provenance.Provenance) error {
	if in := said.BuildDefinition.InternalParameters; !in.Walls.Machine || in.Hermetic {
		return fmt.Errorf("%+v", in.Walls)
	}
	return nil
}

func network(_ string, said provenance.Provenance) error {
	if in := said.BuildDefinition.InternalParameters; len(in.Walls.Network) != 1 || in.Hermetic {
		return fmt.Errorf("%+v", in.Walls)
	}
	return nil
}

func nothing(_ string, said provenance.Provenance) error {
	if in := said.BuildDefinition.InternalParameters; in.Walls.Machine || len(in.Walls.Network) > 0 || !in.Hermetic {
		return fmt.Errorf("%+v", in.Walls)
	}
	return nil
}

// TestUnrecordedInputs: what a step uses is recorded, or the step does not get
// it. Where the provenance says that something could have been used that it does
// not list, the output is below level 4.
func TestUnrecordedInputs(t *testing.T) {
	w := openWorld(t)
	mode := w.walls(t)
	t.Setenv("WAYBILL_UNRECORDED", "planted")
	var pin []byte
	for _, r := range inputs() {
		t.Run(r.act+" "+r.tries, func(t *testing.T) {
			b := w.prepare(t, mode, r.row)
			plant(t, b)
			if strings.HasPrefix(r.more, scratch) {
				pin = w.pin(t, b, pin)
			}
			err := w.build(t, b)
			if r.written == nil {
				if codeOf(err) != r.code || !strings.Contains(err.Error(), r.says) {
					t.Fatalf("%s %v, want %s with %q\n%s", codeOf(err), err, r.code, r.says, b.log(t))
				}
				if names := b.released(t); len(names) > 0 {
					t.Errorf("released all the same: %v", names)
				}
				return
			}
			noErr(t, err)
			body := must(os.ReadFile(filepath.Join(b.state, "files", "lantern.txt")))(t)
			e := must(w.verifier.Attestation(must(os.ReadFile(filepath.Join(b.state, "files", "provenance", "evil.sigstore.json")))(t)))(t)
			noErr(t, r.written(string(body), must(provenance.Parse(e.Statement()))(t)))
			signer := must(identity.Exact(e.Identity()))(t)
			trust := must(slsa.NewTrust([]slsa.Pair{{
				Signer: signer, BuilderID: provenance.BuilderIsolated, Level: 4, Complete: true, Enforced: "its steps get nothing else",
			}}, nil))(t)
			report := must(trust.Judge(slsa.Question{Name: "lantern.txt", Bytes: digest.SetOf(body), Provenance: e}))(t)
			if mode == "isolated" && report.Level(slsa.Build) != r.level {
				t.Errorf("level %d, want %d: %v", report.Level(slsa.Build), r.level, report.Meet(slsa.Demand{Track: slsa.Build, Level: 4}))
			}
		})
	}
}

// plant puts each input where an ordinary process would find it.
func plant(t *testing.T, b *release) {
	t.Helper()
	noErr(t, os.WriteFile(filepath.Join(b.source, "..", "outside.txt"), []byte("planted"), 0o644))
	noErr(t, os.WriteFile(filepath.Join(b.cache, "object"), []byte("planted"), 0o644))
	noErr(t, os.WriteFile(filepath.Join(b.cache, "outside.h"), []byte("planted"), 0o644))
}

// pin pins the toolchain, with the lock of an earlier row if there is one.
func (w *world) pin(t *testing.T, b *release, pin []byte) []byte {
	t.Helper()
	config, file := filepath.Join(b.source, "release.yaml"), filepath.Join(b.source, "release.lock.yaml")
	body := must(os.ReadFile(config))(t)
	noErr(t, os.WriteFile(config, append([]byte("lock: release.lock.yaml\n"), body...), 0o644))
	if pin == nil {
		pin = must(lock.Update{Dir: b.source}.Find(t.Context()))(t).Lock.Encode()
	}
	noErr(t, os.WriteFile(file, pin, 0o644))
	for _, args := range [][]string{{"add", "."}, {"commit", "-q", "-m", "lock"}, {"tag", "-f", w.version.String()}} {
		b.git(t, "", args...)
	}
	return pin
}

const inputsName = "UNRECORDED.md"

// TestInputsTable: the page that people read is what this file demands.
func TestInputsTable(t *testing.T) {
	var s strings.Builder
	s.WriteString(`# What a step could use without saying so

Level 4 of SLSA's Build track, as drafted, asks that the builder ensures that provenance lists all dependencies. Each line is a test
of this package: an input is planted, and a step of our isolated builder uses it. Either the step fails, and nothing is signed for,
or the provenance says what it used or could have used; *level* is then what the output reaches, of a builder that is trusted up to 4.

| a step | what happens | level |
|---|---|---|
`)
	for _, r := range inputs() {
		if r.written == nil {
			line(&s, r.tries, "refused, `"+string(r.code)+"`: "+r.says, "-")
		} else {
			line(&s, r.tries, "recorded: "+r.where, fmt.Sprint(r.level))
		}
	}
	for _, r := range repositories() {
		if r.code == verdict.FileType && (r.name == "submodule" || strings.HasPrefix(r.name, "link-")) {
			line(&s, "of a repository that "+r.tries, "refused, `"+string(r.code)+"`: "+r.says, "-")
		}
	}
	s.WriteString("\nNot recorded: random numbers, and how busy the machine is.\n")
	if os.Getenv("WAYBILL_UPDATE") != "" {
		noErr(t, os.WriteFile(inputsName, []byte(s.String()), 0o644))
	}
	if want := string(must(os.ReadFile(inputsName))(t)); s.String() != want {
		t.Errorf("%s is not what the tests demand; look at the difference after WAYBILL_UPDATE=1 go test -run %s", inputsName, t.Name())
	}
}
