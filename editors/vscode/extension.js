// Starts `ncu-swizzle serve lsp`, and starts it anew once the user trusts the workspace.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("ncuSwizzle").get("command");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient(
    "ncu-swizzle",
    "ncu-swizzle",
    { command, args, options: { cwd: folder } },
    {
      documentSelector: [
        { scheme: "file", pattern: "**/*.{cu,cuh}" },
        { scheme: "file", language: "python" },
      ],
      initializationOptions: { trusted: vscode.workspace.isTrusted },
    },
  );
  await client.start();
}

async function restart() {
  await client?.stop();
  await start();
}

exports.activate = async (context) => {
  context.subscriptions.push(
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("ncuSwizzle") && restart()),
  );
  await start();
};

exports.deactivate = () => client?.stop();
