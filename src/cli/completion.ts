import { Argument, type Command } from 'commander';
import type { CommandLinePorts } from './ports.ts';

/**
 * Adds `completion`, which prints scripts for shells. They are made from the commands, contain only names of commands and options, and call
 * nothing.
 */
export function completionCommand(program: Command, ports: Pick<CommandLinePorts, 'streams'>): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(Object.keys(scripts)))
    .addHelpText(
      'after',
      '\nbash: source <(tollgate completion bash)\nzsh:  source <(tollgate completion zsh)\nfish: tollgate completion fish | source',
    )
    .action((shell: keyof typeof scripts) => ports.streams.out(scripts[shell](listWords(program, []))));
}

/** The words that can follow a command; `path` is the words that name it. */
interface Words {
  readonly path: readonly string[];
  readonly commands: readonly string[];
  readonly options: readonly string[];
}

function listWords(command: Command, path: readonly string[]): Words[] {
  const { commands } = command;
  const own: Words = {
    path,
    commands: commands.map(each => each.name()),
    options: [...command.options.flatMap(({ long }) => long ?? []), '--help'],
  };
  return [own, ...commands.flatMap(each => listWords(each, [...path, each.name()]))];
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

function bashScript(words: readonly Words[]): string {
  const cases = words.map(
    ({ path, commands, options }) => `    '${path.join(' ')}') words='${[...commands, ...options].join(' ')}' ;;`,
  );
  return `_tollgate() {
  local cur=\${COMP_WORDS[COMP_CWORD]} path='' word words=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in -*) break ;; *) path="\${path:+$path }$word" ;; esac
  done
  case $path in
${cases.join('\n')}
  esac
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); fi
}
complete -o default -F _tollgate tollgate
`;
}

function zshScript(words: readonly Words[]): string {
  const cases = words.map(
    ({ path, commands, options }) => `    '${path.join(' ')}') compadd -- ${[...commands, ...options].join(' ')} ;;`,
  );
  return `#compdef tollgate
_tollgate() {
  local path_='' word
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case $word in -*) break ;; *) path_="\${path_:+$path_ }$word" ;; esac
  done
  case $path_ in
${cases.join('\n')}
    *) _files ;;
  esac
}
compdef _tollgate tollgate
`;
}

function fishScript(words: readonly Words[]): string {
  const begin = `function __tollgate_at
  set -l path
  for word in (commandline -opc)[2..]
    string match -q -- '-*' $word; and break
    set -a path $word
  end
  test "$path" = "$argv"
end
`;
  const lines = words.map(({ path, commands, options }) => {
    const at = `-n '__tollgate_at ${path.join(' ')}'`;
    const names = commands.length === 0 ? [] : [`complete -c tollgate -f ${at} -a '${commands.join(' ')}'`];
    return [...names, ...options.map(option => `complete -c tollgate ${at} -l ${option.slice(2)}`)].join('\n');
  });
  return `${begin}${lines.join('\n')}\n`;
}
