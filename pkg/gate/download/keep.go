package download

import (
	"context"
	"errors"
	"io"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// errLeft stops the writing of a file that was not read to its end.
var errLeft = errors.New("it was not read to its end")

// keeping writes a file while it is read. It is kept only if it was read to its
// end.
type keeping struct {
	body  io.ReadCloser
	pipe  *io.PipeWriter
	done  chan error // the result of the writing
	free  func()
	ended bool
}

// keep starts to write the bytes that will be read from a body; free is called
// on Close.
func (d *Download) keep(ctx context.Context, name string, body io.ReadCloser, free func()) io.ReadCloser {
	from, to := io.Pipe()
	k := &keeping{body: body, pipe: to, done: make(chan error, 1), free: free}
	go func() { // guards the reading end of the pipe
		err := d.into.Put(ctx, name, -1, from, store.PutOptions{})
		_ = from.CloseWithError(err) // bounded by the writing of the file
		k.done <- err
	}()
	return k
}

// Read implements [io.Reader]. It returns the end of the file only once the
// copy is durable.
func (k *keeping) Read(p []byte) (int, error) {
	if k.ended {
		return 0, io.EOF
	}
	n, err := k.body.Read(p)
	if n > 0 {
		if _, failed := k.pipe.Write(p[:n]); failed != nil {
			return 0, <-k.end(failed)
		}
	}
	if errors.Is(err, io.EOF) {
		if failed := <-k.end(nil); failed != nil {
			return 0, failed
		}
		return n, io.EOF
	}
	return n, err
}

// end ends the writing, successfully if why is nil, and returns the writer's
// error.
func (k *keeping) end(why error) <-chan error {
	k.ended = true
	_ = k.pipe.CloseWithError(why) // nil is the end of the file
	return k.done
}

// Close implements [io.Closer].
func (k *keeping) Close() error {
	err := k.body.Close()
	if !k.ended {
		if failed := <-k.end(errLeft); !errors.Is(failed, errLeft) {
			err = errors.Join(err, failed)
		}
	}
	k.free()
	return err
}
