package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxHint bounds the memory allocated for an object's declared size.
const maxHint = 4 << 20

// Read reads a whole object of at most limit bytes. A larger one is refused
// with code LIMIT before more of it is in memory.
func Read(ctx context.Context, from Place, name string, limit int64) ([]byte, error) {
	body, size, err := from.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	// The size only avoids growing the buffer; a wrong one does no harm.
	buf := bytes.NewBuffer(make([]byte, 0, min(max(size, 0), maxHint)+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(body, limit+1)); err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	if int64(buf.Len()) > limit {
		return nil, verdict.Refuse(verdict.Limit, name, "more than %d bytes", limit)
	}
	return buf.Bytes(), nil
}

// reporting returns a body whose failures are unavailability. A file of this
// machine can be read at any offset.
func reporting(body io.ReadCloser, place, op string) io.ReadCloser {
	stream := transport.Reporting(body, func(err error) error { return &verdict.UnavailableError{Place: place, Op: op, Err: err} })
	if file, is := body.(*os.File); is {
		return struct {
			io.ReadCloser
			io.ReaderAt
		}{stream, file}
	}
	return stream
}
