// The real controller of aggregated ClusterRoles, the one part of
// kube-controller-manager whose results RBAC reads, so that the tests judge
// admin, edit and view by what a whole cluster makes of them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
)

// The arguments: the server's URL, the file of its authority, the
// administrator's token.
func main() {
	if len(os.Args) != 4 {
		klog.Exit("usage: cluster-roles URL CA-FILE TOKEN")
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            os.Args[1],
		BearerToken:     os.Args[3],
		TLSClientConfig: rest.TLSClientConfig{CAFile: os.Args[2]},
		// A test waits for each write.
		QPS:   -1,
	})
	if err != nil {
		klog.Exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := informers.NewSharedInformerFactory(client, 0)
	controller := clusterroleaggregation.NewClusterRoleAggregation(
		factory.Rbac().V1().ClusterRoles(), client.RbacV1())
	factory.Start(ctx.Done())
	controller.Run(ctx, 1)
}
