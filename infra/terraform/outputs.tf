# The outputs of ../template.yaml; null for one whose function is not deployed. A test writes this
# file from it.

output "bucket" {
  description = "Artifacts, state and the registry of hubs"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "Bucket", null)
}

output "capsule_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "CapsuleFunction", null)
}

output "dashboard_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "DashboardFunction", null)
}

output "dashboard_url" {
  description = "The dashboard; the login's callback is this address with /callback"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "DashboardUrl", null)
}

output "dead_letter_queue_url" {
  description = "Messages that failed five times"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "DeadLetterQueueUrl", null)
}

output "drift_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "DriftFunction", null)
}

output "drift_role" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "DriftRole", null)
}

output "isolated_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "IsolatedFunction", null)
}

output "isolated_queue_url" {
  description = "The queue of steps that run alone"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "IsolatedQueueUrl", null)
}

output "plan_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "PlanFunction", null)
}

output "plan_queue_url" {
  description = "The queue of plans"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "PlanQueueUrl", null)
}

output "queue_url" {
  description = "The queue of steps"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "QueueUrl", null)
}

output "reconcile_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "ReconcileFunction", null)
}

output "reconcile_role" {
  description = "Opens clusters of --allow-role-cluster, as DriftRole does"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "ReconcileRole", null)
}

output "sweep_queue_url" {
  description = "The queue of sweeps"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "SweepQueueUrl", null)
}

output "webhook_function" {
  value = lookup(aws_cloudformation_stack.driftless.outputs, "WebhookFunction", null)
}

output "webhook_url" {
  description = "The payload URL of Git hosts' webhooks; with the status.webhookPath of a Receiver, that of its webhook"
  value       = lookup(aws_cloudformation_stack.driftless.outputs, "WebhookUrl", null)
}
