package kubelet

import (
	"context"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// What the PodsAPI does: it answers, does not answer, does not know all sources yet, or has no socket.
const (
	PodsAPIOn           = "on"
	PodsAPIHang         = "hang"
	PodsAPIInitializing = "initializing"
	PodsAPIOff          = "off"
)

// switchPodsAPI serves the PodsAPI, or ends it.
func (k *kubelet) switchPodsAPI() error {
	switch on := k.state.PodsAPI != PodsAPIOff; {
	case !k.Config.PodsAPI:
	case on && k.pods == nil:
		return k.servePods()
	case !on && k.pods != nil:
		k.pods.Stop()
		k.pods = nil
	}
	return nil
}

// servePods serves the kubelet's PodsAPI (KEP-4188): v1alpha1.Pods/ListPods returns all pods of its sources.
func (k *kubelet) servePods() error {
	socket := k.Root + "/pods-api/pods-api.sock"
	if err := os.MkdirAll(k.Root+"/pods-api", 0o750); err != nil {
		return err
	}
	_ = os.Remove(socket) // of an earlier kubelet
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(raw{}))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "v1alpha1.Pods", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "ListPods", Handler: func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return k.listPods(ctx)
		}}},
	}, new(any))
	k.pods = s
	go func() { _ = s.Serve(l) }() // until Stop
	return nil
}

func (k *kubelet) listPods(ctx context.Context) ([]byte, error) {
	select {
	case k.calls <- struct{}{}:
	case <-ctx.Done():
	}
	k.mu.Lock()
	s := k.state
	k.mu.Unlock()
	switch s.PodsAPI {
	case PodsAPIHang:
		<-ctx.Done()
		return nil, ctx.Err()
	case PodsAPIInitializing:
		return nil, status.Error(codes.FailedPrecondition, "Kubelet is initializing")
	}
	var list []byte
	for _, p := range s.Listed {
		list = appendField(list, 1, p.marshal())
	}
	return list, nil
}

// marshal encodes a v1.Pod: its field 1 is ObjectMeta, with the name (1), namespace (3), UID (5) and annotations (12).
func (p Listed) marshal() []byte {
	meta := appendField(nil, 1, []byte(p.Name))
	meta = appendField(meta, 3, []byte(p.Namespace))
	meta = appendField(meta, 5, []byte(p.UID))
	for key, value := range p.Annotations {
		meta = appendField(meta, 12, appendField(appendField(nil, 1, []byte(key)), 2, []byte(value)))
	}
	return appendField(nil, 1, meta)
}

func appendField(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// raw sends messages that are already encoded.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, _ := v.([]byte)
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }

var _ encoding.CodecV2 = raw{}
