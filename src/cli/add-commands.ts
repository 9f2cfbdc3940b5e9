import type { Command } from 'commander';
import { applyCommand } from './apply/apply.ts';
import { connectCommand } from './agents/connect.ts';
import { runCommand } from './agents/run.ts';
import { backupCommands } from './backups.ts';
import {
  accountCommands,
  creditCommands,
  keyCommands,
  managementKeyCommands,
  modelCommands,
  subscriptionCommands,
} from './commands.ts';
import { groupCommands, limitCommands } from './control-commands.ts';
import { completionCommand } from './completion.ts';
import { doctorCommand } from './doctor.ts';
import { reloadCommand, statusCommand } from './health.ts';
import { configCommands, ledgerCommands } from './local.ts';
import { migrateStoreCommand } from './migrate-store.ts';
import { historyCommands } from './history-commands.ts';
import { holdCommands, requestCommands } from './request-commands.ts';
import { dashboardCommands } from './dashboard-commands.ts';
import { storageCommand } from './running-config.ts';
import { usageCommand } from './usage.ts';
import { webhookCommands } from './webhook-commands.ts';
import { providerCommands } from './provider-commands.ts';
import type { CommandLinePorts } from './ports.ts';

/**
 * Adds all commands except `serve`, which does not load their modules. `exitWith` is called with the exit code of a program that a command ran.
 */
export function addCommands(program: Command, ports: CommandLinePorts, exitWith: (code: number) => void): void {
  configCommands(program, ports);
  ledgerCommands(program, ports);
  backupCommands(program, ports);
  migrateStoreCommand(program, ports);
  modelCommands(program, ports);
  providerCommands(program, ports);
  accountCommands(program, ports);
  creditCommands(program, ports);
  keyCommands(program, ports);
  groupCommands(program, ports);
  limitCommands(program, ports);
  managementKeyCommands(program, ports);
  subscriptionCommands(program, ports);
  applyCommand(program, ports);
  webhookCommands(program, ports);
  historyCommands(program, ports);
  dashboardCommands(program, ports);
  usageCommand(program, ports);
  requestCommands(program, ports);
  holdCommands(program, ports);
  statusCommand(program, ports);
  doctorCommand(program, ports);
  reloadCommand(program, ports);
  storageCommand(program, ports);
  completionCommand(program, ports);
  runCommand(program, ports, exitWith);
  connectCommand(program, ports);
}
