// Package drill rehearses a stolen signing identity in a lab. A thief signs and publishes
// a release with it; then the commands of docs/how-to/incident.md run, as a user types
// them, and it is measured after how many seconds each place refuses the thief's release.
//
//	report, err := drill.Run(ctx, drill.Options{Bin: "bin", Example: "test/scene/shell", Dir: dir})
package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

// The versions: one that was released before the theft, and the thief's.
const (
	good   = scene.Version
	stolen = "v0.1.1"
)

// Options say where things are.
type Options struct {
	Bin     string // directory of the built commands
	Example string // the project that is released
	Dir     string // where everything is kept; must be empty
	// Then runs at the end, while the lab is still there; it may be nil.
	Then func(*scene.Scene) error
	// Tell is told each step and command; nil if nobody is.
	Tell io.Writer
}

// Report is how the drill went.
type Report struct {
	Places   []Place   `json:"places"`
	Seconds  float64   `json:"seconds"` // from the alarm until all was done
	Commands []Command `json:"commands"`
}

// Place is somewhere a user asks about the two releases.
type Place struct {
	Name string `json:"place"`
	// Old: its user has not got the new policy.
	Old bool `json:"oldPolicy"`
	// RefusedAfter are the seconds from the alarm until the thief's release was refused.
	RefusedAfter float64 `json:"refusedAfterSeconds"`
	Code         string  `json:"code"`    // the first finding
	Because      string  `json:"because"` // the step after which it was refused
	// Kept: it accepts the earlier release after the identity was ended.
	Kept bool `json:"acceptsEarlierRelease"`

	ask     func(ctx context.Context, version string) scene.Result
	refused bool
}

// Command is one command of the incident.
type Command struct {
	Typed  string `json:"command"`
	Status int    `json:"status"`
	Output string `json:"-"` // stdout and stderr
}

// Run makes the world, lets the thief act, and handles the incident.
func Run(ctx context.Context, o Options) (report Report, err error) {
	d := &drill{tells: o.Tell}
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return report, err
	}
	if d.Scene, err = scene.Open(ctx, scene.Options{Bin: bin, Dir: o.Dir, Example: o.Example}); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	defer d.stopGate()
	for _, step := range []step{{"an honest release", d.honest}, {"the theft", d.theft}, {"the alarm", d.alarm}} {
		d.tell("%s", step.name)
		if err := step.do(ctx); err != nil {
			return report, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	steps := d.incident()
	for i, step := range steps {
		d.tell("%s", step.name)
		if err := step.do(ctx); err != nil {
			return report, fmt.Errorf("%s: %w", step.name, err)
		}
		if err := d.askAll(ctx, step.name, i == 0 || i == len(steps)-1); err != nil {
			return report, err
		}
	}
	if i := slices.IndexFunc(d.places, func(p *Place) bool { return !p.refused }); i >= 0 {
		return report, fmt.Errorf("%s still accepts the thief's release", d.places[i])
	}
	if o.Then != nil {
		err = o.Then(d.Scene)
	}
	return d.report(), err
}

// drill is a scene with what the incident needs.
type drill struct {
	*scene.Scene
	tells    io.Writer
	places   []*Place
	commands []Command
	alarmed  time.Time // when the watch reported the thief's entries
	ended    time.Duration
	clean    string // when the last pass of the watch began that found nothing
	entries  []string
	gate     service
	resealed bool
}

func (d *drill) tell(format string, args ...any) {
	if d.tells != nil {
		fmt.Fprintf(d.tells, format+"\n", args...)
	}
}

// runs runs a command of the incident, which must end with the status.
func (d *drill) runs(ctx context.Context, status int, args ...string) (scene.Result, error) {
	r := d.Run(ctx, args...)
	d.commands = append(d.commands, Command{Typed: r.String(), Status: r.Code, Output: r.Stdout + r.Stderr})
	d.tell("  $ %s", r)
	return r, ends(r, status)
}

// each runs commands, each of which must succeed.
func (d *drill) each(ctx context.Context, commands ...string) error {
	for _, c := range commands {
		if _, err := d.runs(ctx, 0, fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

// fields splits a command at its spaces, without those between double quotes.
func fields(command string) (all []string) {
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

func ends(r scene.Result, status int) error {
	if r.Code != status {
		return fmt.Errorf("%s ended with status %d, want %d:\n%s%s", r, r.Code, status, r.Stdout, r.Stderr)
	}
	return nil
}

// codes are the findings of a verdict in JSON.
func codes(r scene.Result) ([]string, error) {
	var v struct {
		Findings []struct{ Code, Subject string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		return nil, fmt.Errorf("%s: %w:\n%s%s", r, err, r.Stdout, r.Stderr)
	}
	var all []string
	for _, f := range v.Findings {
		all = append(all, f.Code)
	}
	return all, nil
}

// askAll asks each place that did not refuse the thief's release yet, and with whole each
// place about both releases.
func (d *drill) askAll(ctx context.Context, step string, whole bool) error {
	for _, p := range d.places {
		if err := d.askStolen(ctx, p, step, whole); err != nil {
			return err
		}
		if !whole || d.resealed && p.Old { // the new identity is not in its policy
			continue
		}
		if err := ends(p.ask(ctx, good), 0); err != nil {
			return fmt.Errorf("%s does not accept what was signed before the theft, after %q: %w", p, step, err)
		}
		p.Kept = true
	}
	return nil
}

// askStolen asks a place about the thief's release. Once refused, it stays refused.
func (d *drill) askStolen(ctx context.Context, p *Place, step string, whole bool) error {
	if p.refused && !whole {
		return nil
	}
	r := p.ask(ctx, stolen)
	if p.refused || r.Code != 1 {
		return ends(r, map[bool]int{true: 1, false: 0}[p.refused])
	}
	all, err := codes(r)
	if err != nil || len(all) == 0 {
		return fmt.Errorf("%s refuses without a finding: %w\n%s", p, err, r.Stderr)
	}
	p.refused, p.RefusedAfter, p.Code, p.Because = true, time.Since(d.alarmed).Seconds(), all[0], step
	d.tell("  %s refuses: %s", p, p.Code)
	return nil
}

// String names the place and its policy.
func (p *Place) String() string {
	if p.Old {
		return p.Name + ", old policy"
	}
	return p.Name
}

func (d *drill) report() Report {
	r := Report{Seconds: d.ended.Seconds(), Commands: d.commands}
	for _, p := range d.places {
		r.Places = append(r.Places, *p)
	}
	return r
}

// WriteTable prints the places, in the order in which they refused.
func (r Report) WriteTable(w io.Writer) error {
	places := slices.Clone(r.Places)
	slices.SortStableFunc(places, func(a, b Place) int { return int(1000 * (a.RefusedAfter - b.RefusedAfter)) })
	fmt.Fprintf(w, "%-22s  %13s  %-15s  %s\n", "place", "refused after", "code", "because of")
	for i := range places {
		fmt.Fprintf(w, "%-22s  %11.1f s  %-15s  %s\n", &places[i], places[i].RefusedAfter, places[i].Code, places[i].Because)
	}
	_, err := fmt.Fprintf(w, "\n%s, which was signed before the theft, was accepted at each place that %s was refused at.\n%d commands in %.1f s from the alarm.\n", good, stolen, len(r.Commands), r.Seconds)
	return err
}

// write writes a file of the scene.
func (d *drill) write(name, text string) error {
	return os.WriteFile(d.Path(name), []byte(text), 0o600)
}
