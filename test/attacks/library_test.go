package attacks

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate"
)

// Example is somebody else's program, which verifies a release of the lab by its
// profile. It asks all that the commands ask.
func Example() {
	ctx, profile := context.Background(), published()
	g, err := gate.Open(ctx, profile, gate.Opening{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := g.Verify(ctx, "v0.1.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.Outcome(), v.Counts.Verified == v.Counts.Required, v.Counts.Extra)
	// Output: accepted true 0
}

// published is the profile of the sealed release, as it lies where users find it.
func published() string {
	t := &outside{}
	return theWorld(t).attacked(t).asked(t).Profile
}

// outside stands for a test where there is none: an example.
type outside struct{ testing.TB }

func (*outside) Helper()                  {}
func (*outside) Name() string             { return "Example" }
func (*outside) Context() context.Context { return context.Background() }
func (*outside) Cleanup(func())           {} // the process ends soon
func (*outside) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }

func (*outside) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (o *outside) TempDir() string {
	dir, err := os.MkdirTemp(sceneDir, strings.ToLower(o.Name())+"-")
	if err != nil {
		o.Fatal(err)
	}
	return dir
}
